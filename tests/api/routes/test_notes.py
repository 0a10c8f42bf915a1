from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import quote

import aiohttp

from tests.api.calls import digest, error, expect, get, key_of, noticed, refused, spoken
from tests.stories.daemon_rig import DaemonRig, Live, save

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


async def test_a_map_says_where_things_are_and_nothing_of_what_they_say(
    vault, daemon_rig: DaemonRig
):
    save(vault / "garden.md", TEXT)
    reported = await get(daemon_rig, "/api/notes/garden.md?as=map")

    facts = reported["headings"][1]
    assert TEXT[facts["start"] : facts["stop"]].startswith("## Facts\n- beans")
    assert (facts["first_line"], facts["last_line"]) == (8, 12)
    assert reported["keys"] == [
        {"name": "status", "start": 4, "stop": 17, "first_line": 2, "last_line": 2}
    ]
    assert "beans" not in str(reported)


async def test_who_has_it_already_gets_that_answer(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", "one\n")
    status, headers, _ = await answered(daemon_rig, "/api/notes/a.md")
    tag = headers["ETag"]
    assert (status, tag) == (200, f'"{ONE}"')
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*", tag.strip('"')):
        same = await answered(daemon_rig, "/api/notes/a.md", **{"If-None-Match": known})
        assert same[::2] == (304, b"")
    assert (await answered(daemon_rig, "/api/notes/a.md", **{"If-None-Match": '"x"'}))[0] == 200
    for shape in ("raw", "json", "map"):
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


async def test_the_earlier_texts_are_listed_and_each_comes_in_the_form_asked_for(live: Live, vault):
    save(vault / "A/pond.md", "one\n")
    path = "/api/notes/A/pond.md"
    async with live() as daemon_rig:
        for text in (b"two\n", b"# Three\n"):
            await expect(daemon_rig, 200, "PUT", path, data=text)
        versions = (await get(daemon_rig, f"{path}/versions"))["versions"]
        assert [(one["by"], one["operation"], one["run"], one["hash"]) for one in versions] == [
            ("person", "ReplaceAll", None, digest("two\n")),
            (None, None, None, ONE),
        ]
        assert versions[0]["at"].endswith("Z")
        assert (await get(daemon_rig, f"{path}/versions?limit=2"))["versions"][1:] == versions[1:]
        assert len((await get(daemon_rig, f"{path}/versions?limit=1"))["versions"]) == 1
        old = await get(daemon_rig, f"{path}?version={ONE}&as=json")
        assert old == old | {"title": "pond", "hash": ONE, "preamble": "one\n", "size": 4}
        assert (await get(daemon_rig, f"{path}?as=json"))["title"] == "Three"
        await expect(daemon_rig, 200, "DELETE", path)
        assert len((await get(daemon_rig, f"{path}/versions"))["versions"]) == 3
        await expect(daemon_rig, 404, "GET", "/api/notes/A/none.md/versions")
        key = key_of(daemon_rig, "vault:read", paths=["B/**"])
        await expect(daemon_rig, 404, "GET", f"{path}/versions", headers=key)


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
