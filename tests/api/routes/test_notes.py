from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from parachuted.api.http.answers import answer_writer
from parachuted.api.routes import notes
from parachuted.api.routes.notes import NoteAnswer, answer_of
from parachuted.texts.times import moment
from parachuted.vault import VaultPath, digest_of, parse_note
from tests.api.calls import call, digest, error, expect, get, key_of, noticed, refused, spoken
from tests.stories.daemon_rig import DaemonRig, save

NOTE = "/api/notes/a.md"
ONE = digest("one\n")
NS = 1_764_500_000_144_272_509
TEXT = (
    "---\nstatus: open\n---\n# Garden\n\nWhat grows.\n\n## Facts\n- beans, see "
    "[[Seeds|these]]\n\n### More\n![p](<a b.png>)\n"
)


async def answered(
    daemon_rig: DaemonRig, path: str, **headers: str
) -> tuple[int, Mapping[str, str], bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(daemon_rig.url + path, headers=headers) as answer,
    ):
        return answer.status, answer.headers, await answer.read()


async def test_a_note_comes_as_json_with_its_sections_and_links(vault, daemon_rig: DaemonRig):
    save(vault / "A/garden.md", TEXT)
    reported = await get(daemon_rig, "/api/notes/A/garden.md")

    whole = {"path": "A/garden.md", "title": "Garden", "size": len(TEXT), "problems": []}
    assert reported == reported | whole | {"frontmatter": {"status": "open"}}
    assert [(one["level"], one["path"], one["content"]) for one in reported["sections"]] == [
        (1, ["Garden"], "\nWhat grows.\n\n"),
        (2, ["Garden", "Facts"], "- beans, see [[Seeds|these]]\n\n"),
        (3, ["Garden", "Facts", "More"], "![p](<a b.png>)\n"),
    ]
    assert [(one["kind"], one["target"], one["line"]) for one in reported["links"]] == [
        ("wiki", "Seeds", 9),
        ("embed", "a b.png", 12),
    ]


async def test_a_note_comes_raw_byte_for_byte_when_asked_either_way(vault, daemon_rig: DaemonRig):
    data = b"\xef\xbb\xbf---\r\na: b\r\n---\r\n# T\xff\r\n"
    (vault / "odd.md").write_bytes(data)
    for query, headers in (
        ("?as=raw", {}),
        ("", {"Accept": "text/markdown"}),
        ("", {"Accept": "text/plain, */*"}),
    ):
        status, reported, body = await answered(daemon_rig, f"/api/notes/odd.md{query}", **headers)
        assert (status, body) == (200, data)
        assert reported["Content-Type"] == "text/markdown; charset=utf-8"
    for accept in ("*/*", "application/json", "text/html, application/json"):
        _, reported, _ = await answered(daemon_rig, "/api/notes/odd.md", Accept=accept)
        assert reported["Content-Type"] == "application/json; charset=utf-8"


async def test_who_has_it_already_gets_that_answer(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", "one\n")
    status, headers, _ = await answered(daemon_rig, "/api/notes/a.md")
    tag = headers["ETag"]
    assert (status, tag) == (200, f'"{ONE}"')
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*", tag.strip('"')):
        same = await answered(daemon_rig, "/api/notes/a.md", **{"If-None-Match": known})
        assert same[::2] == (304, b"")
    assert (await answered(daemon_rig, "/api/notes/a.md", **{"If-None-Match": '"x"'}))[0] == 200
    for shape in ("raw", "json"):
        _, headers, _ = await answered(daemon_rig, f"/api/notes/a.md?as={shape}")
        assert headers["ETag"] == tag


async def test_a_just_saved_note_is_never_reported_as_it_was(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", "# 0\n")
    os.utime(vault / "a.md", (1, 1))
    for number in range(1, 30):
        (vault / "a.md").write_text(
            f"# {number % 10}\n"
        )  # in place: the same size, and often the same tick of the clock
        assert (await get(daemon_rig, "/api/notes/a.md"))["title"] == str(number % 10)
    await noticed(daemon_rig)
    for number in range(60, 75):
        save(vault / "a.md", f"# {number}\n")
        assert (await get(daemon_rig, "/api/notes/a.md"))["title"] == str(number)


async def test_names_may_hold_anything(vault, daemon_rig: DaemonRig):
    for name in (
        *("sp ace & plus+.md", "ü/é.md", "100%.md", "q?a#b.md", "a'b\"c.md", "日本.md"),
        *("a:b.markdown", "%41.md"),
    ):
        save(vault / name, "# x\n")
        address = "/".join(quote(part, safe="") for part in name.split("/"))
        assert (await get(daemon_rig, f"/api/notes/{address}"))["path"] == name


async def test_a_name_that_is_not_utf8_is_reached_by_its_bytes(vault, daemon_rig: DaemonRig):
    (vault / os.fsdecode(b"caf\xe9.md")).write_bytes(b"# x\n")
    said = await spoken(
        daemon_rig,
        "GET /api/notes/caf%E9.md HTTP/1.1\r\nHost: "
        f"127.0.0.1:{daemon_rig.daemon.port}\r\nConnection: close\r\n\r\n".encode(),
    )

    assert b"200 OK" in said
    assert b'"path":"caf\\\\xe9.md"' in said


async def test_what_is_hidden_missing_or_outside_is_the_same_nothing(vault, daemon_rig: DaemonRig):
    save(vault / ".secret.md", "x")
    save(vault / ".obsidian/a.md", "x")
    (vault.parent / "out.md").write_text("x")
    (vault / "out.md").symlink_to(vault.parent / "out.md")
    (vault / "in.md").symlink_to(".secret.md")
    (vault / "folder.md").mkdir()
    for path in (
        *(".secret.md", ".obsidian/a.md", "none.md", "out.md", "in.md", "none/none.md", ".x"),
    ):
        answer = await refused(daemon_rig, "GET", f"/api/notes/{path}")
        assert answer == (404, f"{path} is not in the vault")
    await expect(daemon_rig, 404, "GET", "/api/notes/a.txt")
    for path in ("folder.md", "a//b.md", "~/a.md", "a/%01.md", "/etc/passwd.md"):
        assert await error(daemon_rig, "GET", f"/api/notes/{path}") in {400, 404}, path
    await expect(daemon_rig, 400, "GET", "/api/notes/a.md?as=html")


async def test_a_link_within_the_vault_is_followed_and_never_reported_as_it_was(
    vault, daemon_rig: DaemonRig
):
    save(vault / "one.md", "# 1\n")
    save(vault / "two.md", "# 2\n")
    (vault / "link.md").symlink_to("one.md")
    assert (await get(daemon_rig, "/api/notes/link.md"))["title"] == "1"
    (vault / "link.md").unlink()
    (vault / "link.md").symlink_to("two.md")
    assert (await get(daemon_rig, "/api/notes/link.md"))["title"] == "2"


async def test_an_earlier_version_is_had_back_by_its_digest_but_no_other_text(
    vault, daemon_rig: DaemonRig
):
    path = "/api/notes/one.md"
    save(vault / "one.md", "one\n")
    save(vault / "two.md", "two\n")
    one, two = [(await get(daemon_rig, f"/api/notes/{name}.md"))["hash"] for name in ("one", "two")]
    assert (await answered(daemon_rig, f"{path}?version={one}"))[2] == b"one\n"
    await expect(daemon_rig, 200, "PUT", path, data=b"new\n")
    assert (await answered(daemon_rig, f"{path}?version={one}"))[2] == b"one\n"
    await expect(daemon_rig, 404, "GET", f"{path}?version={two}")
    await expect(daemon_rig, 404, "GET", f"/api/notes/two.md?version={one}")
    await expect(daemon_rig, 400, "GET", f"{path}?version=x")


async def test_a_note_without_a_heading_has_the_title_that_lists_give_it(
    vault, daemon_rig: DaemonRig
):
    save(vault / "Tea.md", "green\n")
    os.utime(vault / "Tea.md", ns=(NS, NS))  # st_mtime of it is another microsecond
    save(vault / "b.md", "---\ntitle: ' Said '\n---\n# B\n")
    await noticed(daemon_rig)
    listed = {one["path"]: one["title"] for one in (await get(daemon_rig, "/api/notes"))["notes"]}
    assert listed == {"Tea.md": "Tea", "b.md": "Said"}
    assert {
        path: (await get(daemon_rig, f"/api/notes/{path}"))["title"] for path in listed
    } == listed
    (hit,) = (await get(daemon_rig, "/api/search?q=green"))["results"]
    assert hit["modified"] == (await get(daemon_rig, "/api/notes/Tea.md"))["modified"]


async def test_a_key_sees_its_paths_alone_whatever_others_just_read(vault, daemon_rig: DaemonRig):
    save(vault / "Mine/a.md", "# mine\n")
    save(vault / "Hers/b.md", "# hers\n")
    (vault / "Mine/hers.md").symlink_to("../Hers/b.md")
    key = key_of(daemon_rig, "vault:read", paths=["Mine/**"])
    await noticed(daemon_rig)
    for _ in range(2):
        assert (await get(daemon_rig, "/api/notes/Hers/b.md"))["title"] == "hers"
        await expect(daemon_rig, 200, "GET", "/api/notes/Mine/a.md", headers=key)
        for path in ("Hers/b.md", "Mine/hers.md", "Hers/none.md"):
            answer = await refused(daemon_rig, "GET", f"/api/notes/{path}", headers=key)
            assert answer == (404, f"{path} is not in the vault")


@given(
    st.lists(
        st.sampled_from(
            [
                *(b"# A", b"## B\r", b"", b"---", b"k: v", b"[[x\xff]]", b"text \xff", b"```"),
                *(b"\xef\xbb\xbf", b"B\n==="),
            ]
        )
    )
)
def test_any_note_is_reported_as_it_is_declared_and_no_text_is_missing(lines: list[bytes]):
    data = b"\n".join(lines)
    note = parse_note(data)
    sent = answer_writer(NoteAnswer)(answer_of(VaultPath("a.md"), digest_of(data), 1.5, note))
    TypeAdapter(NoteAnswer).validate_json(sent, strict=True)
    whole = json.loads(sent)

    texts = whole["preamble"] + "".join(section["content"] for section in whole["sections"])
    headings = sum(section.body_start - section.start for section in note.sections)
    shown_bytes = data[note.body.start :].decode("utf-8", "replace")
    assert len(texts) >= len(shown_bytes) - headings


def test_a_time_that_no_calendar_has_is_the_beginning():
    assert moment(0.5) == "1970-01-01T00:00:00.500000Z"
    assert moment(1e18) == moment(-1e18) == "1970-01-01T00:00:00Z"


async def test_a_note_that_is_too_large_is_served_raw_alone(
    vault, monkeypatch, daemon_rig: DaemonRig
):
    monkeypatch.setattr(notes, "_MOST_PARSED", 5)
    save(vault / "a.md", "# one\n")
    assert (await answered(daemon_rig, f"{NOTE}?as=raw"))[2] == b"# one\n"
    await expect(daemon_rig, 422, "GET", f"{NOTE}?as=json")


async def test_a_link_to_what_is_not_a_note_is_nothing(vault, daemon_rig: DaemonRig):
    (vault / "a.md").symlink_to("b.txt")
    save(vault / "b.txt", "# one\n")
    await expect(daemon_rig, 404, "GET", NOTE)


async def test_a_text_that_was_read_is_a_base(vault, monkeypatch, caplog, daemon_rig: DaemonRig):
    save(vault / "a.md", "# one\n")
    store = daemon_rig.daemon.vault.store
    await call(daemon_rig, "GET", NOTE)
    assert store.bases.text(VaultPath("a.md"), digest_of(b"# one\n")) == b"# one\n"

    def refuse(_texts: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.bases, "see", refuse)
    save(vault / "a.md", "# two\n")
    caplog.set_level(logging.WARNING)
    assert (await answered(daemon_rig, f"{NOTE}?as=raw"))[2] == b"# two\n"
    assert "could not be kept" in caplog.text


OPEN = "---\nstatus: open\nn: 5\ntags: [x/y]\n---\n# One\n[[two]] [[nowhere]]\n"


@pytest_asyncio.fixture(loop_scope="module")
async def store(vault: Path, daemon_rig: DaemonRig) -> None:
    save(vault / "A/one.md", OPEN)
    save(vault / "A/two.md", "---\nstatus: done\nn: 10\na:eq: odd\n---\n# Two\n[[nothing]]\n")
    save(vault / "B/three.md", "# Three\n[[two]]\n")
    save(vault / ".hidden/four.md", "# Four\n[[two]]\n")
    await noticed(daemon_rig)


async def paths(daemon_rig: DaemonRig, query: str) -> list[str]:
    return [one["path"] for one in (await get(daemon_rig, f"/api/notes?{query}"))["notes"]]


async def test_notes_are_found_by_what_their_frontmatter_says(store, daemon_rig: DaemonRig):
    for query, expected in {
        "": ["A/one.md", "A/two.md", "B/three.md"],
        "where=status:eq:open": ["A/one.md"],
        "where=n:lt:10&where=status:eq:open": ["A/one.md"],
        "where=n:exists:true&sort=-n": ["A/two.md", "A/one.md"],
        "folder=A": ["A/one.md", "A/two.md"],
        "folder=B/": ["B/three.md"],
        "tag=x": ["A/one.md"],
        "sort=-title": ["A/two.md", "B/three.md", "A/one.md"],
    }.items():
        assert await paths(daemon_rig, query) == expected, query
    reported = (await get(daemon_rig, "/api/notes?where=status:eq:open"))["notes"][0]

    assert reported == reported | {"title": "One", "tags": ["x/y"], "size": len(OPEN)}
    assert reported["frontmatter"]["status"] == "open"
    found, cursor = [], ""
    while cursor is not None:
        more = cursor and f"&cursor={cursor}"
        page = await get(daemon_rig, f"/api/notes?limit=1&sort=-title{more}")
        found += [one["path"] for one in page["notes"]]
        cursor = page["next"]
    assert found == ["A/two.md", "B/three.md", "A/one.md"]


async def test_a_query_that_means_nothing_is_refused(daemon_rig: DaemonRig):
    for query in (
        *("where=status", "where=status:is:open", "where=:eq:open", "where=a:exists:maybe"),
        *("limit=0", "limit=1001", "cursor=x", "folder=../x", "no=1", "sort=path&sort=title"),
        *("sort=modifed", "sort=-nobody", "&".join(["where=a:eq:b"] * 21)),
    ):
        await expect(daemon_rig, 400, "GET", f"/api/notes?{query}")


async def test_a_key_lists_its_paths_alone(store, daemon_rig: DaemonRig):
    in_a = key_of(daemon_rig, "vault:read", paths=["A/**"])

    async def listed(path: str, key: dict[str, str]) -> dict:
        return await expect(daemon_rig, 200, "GET", path, headers=key)

    notes = (await listed("/api/notes", in_a))["notes"]
    assert [one["path"] for one in notes] == ["A/one.md", "A/two.md"]
    links = await listed("/api/notes/A/two.md/backlinks", in_a)
    assert ([one["source"] for one in links["backlinks"]], links["count"]) == (["A/one.md"], 1)
    await expect(daemon_rig, 404, "GET", "/api/notes/B/three.md/backlinks", headers=in_a)


async def test_links_to_a_note_and_to_nothing_are_reported(store, daemon_rig: DaemonRig):
    reported = await get(daemon_rig, "/api/notes/A/two.md/backlinks")
    link = {"target": "A/two.md", "text": "two", "kind": "wiki"}
    assert reported["backlinks"] == [
        {"source": "A/one.md", **link, "line": 7},
        {"source": "B/three.md", **link, "line": 2},
    ]
    await expect(daemon_rig, 404, "GET", "/api/notes/none.md/backlinks")


async def test_a_link_by_title_or_alias_leads_to_the_one_note_of_that_name(
    vault, daemon_rig: DaemonRig
):
    kim = "Brain/entities/people/kim-lee.md"
    save(vault / kim, "---\naliases: [Kimmy]\n---\n# Kim Lee\n")
    save(vault / "Work/kim.md", "# Kim Lee-Park\n")
    save(vault / "Private/kimmy.md", "# Kimmy\n")
    await noticed(daemon_rig)

    async def target(name: str, headers: dict[str, str] | None = None) -> str | None:
        path = f"/api/links/target?target={name}"
        return (await expect(daemon_rig, 200, "GET", path, headers=headers or {}))["path"]

    assert await target("Kim%20Lee") == await target("kim%20lee") == kim
    assert await target("Kimmy") == "Private/kimmy.md"  # a file's own name comes first
    assert await target("Kimmy", key_of(daemon_rig, "vault:read", paths=["Brain/**"])) == kim
    assert await target("Nobody") is None
    save(vault / "Work/kim-lee-2.md", "# Kim Lee\n")
    await noticed(daemon_rig)
    assert await target("Kim%20Lee") is None
