from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta

import aiohttp
import pytest

from tests.api.calls import call, digest, expect, get, refused
from tests.stories.daemon_rig import DaemonRig, note, save

HIDDEN = (
    *(".parachute/audit/x.jsonl", ".claude/settings.json", ".env", ".git/config"),
    *("a/.secret/note.md", ".obsidian/app.json", "..md/x"),
)


async def write(daemon_rig, path: str, content: str, **more: str) -> tuple[int, dict]:
    body = {"path": path, "content": content, **more}
    return await call(daemon_rig, "PUT", "/api/write", json=body)


@pytest.fixture
def tree(vault):
    save(vault / "AGENTS.md", note("Everything"))
    save(vault / "Projects/garden/CLAUDE.md", note("Garden"))
    save(vault / "Projects/plan.md", "a plan\n")
    save(vault / ".env", "SECRET=1\n")
    save(vault / ".parachute/audit/x.jsonl", "{}\n")
    save(vault / ".claude/settings.json", "{}\n")
    save(vault / "Projects/.hidden.md", "hidden\n")
    (vault / "Projects/garden/.git").mkdir()
    (vault / "alias.md").symlink_to("Projects/plan.md")
    (vault / "shed").symlink_to("Projects/garden")
    (vault / "passwd").symlink_to("/etc/passwd")
    (vault / "secrets").symlink_to(".claude")
    (vault / "nowhere").symlink_to("not-there")
    return vault


async def test_a_folder_is_listed_as_the_app_reads_it(tree, daemon_rig: DaemonRig):
    root = await get(daemon_rig, "/api/ls")
    shown = await get(daemon_rig, "/api/ls?path=Projects&includeHidden=true")

    for entry in root["entries"] + shown["entries"]:
        assert datetime.fromisoformat(entry["lastModified"]).utcoffset() == timedelta(0)
    found = {entry["path"]: entry for entry in root["entries"]}
    assert list(found) == ["Projects", "shed", "AGENTS.md", "alias.md"]
    assert (found["shed"]["type"], found["shed"]["symlinkTarget"]) == ("symlink", "Projects/garden")
    assert (
        found["alias.md"]["type"],
        found["alias.md"]["isSymlink"],
        found["alias.md"]["isDirectory"],
    ) == ("symlink", True, False)
    inside = {entry["path"]: entry for entry in shown["entries"]}
    assert list(inside) == ["Projects/garden", "Projects/plan.md"]
    garden = inside["Projects/garden"]
    assert (garden["type"], garden["hasClaudeMd"], garden["hasAgentsMd"], garden["isGitRepo"]) == (
        "directory",
        True,
        False,
        True,
    )
    assert (inside["Projects/plan.md"]["size"], garden["size"]) == (7, None)


async def test_times_are_real_utc(tree, daemon_rig: DaemonRig):
    os.utime(tree / "AGENTS.md", (1_700_000_000, 1_700_000_000))
    listed = await get(daemon_rig, "/api/ls")
    read = await get(daemon_rig, "/api/read?path=AGENTS.md")

    assert {
        entry["lastModified"] for entry in listed["entries"] if entry["name"] == "AGENTS.md"
    } == {"2023-11-14T22:13:20Z"}
    assert read["lastModified"] == "2023-11-14T22:13:20Z"


async def test_what_is_not_there_for_the_caller_is_not_there_in_one_way(
    tree, daemon_rig: DaemonRig
):
    for path in ("nowhere-at-all.md", *HIDDEN, "passwd", "secrets/settings.json", "nowhere"):
        assert await refused(daemon_rig, "GET", f"/api/read?path={path}") == (
            404,
            f"{path} is not in the vault",
        )
    for path in (
        ".claude",
        ".parachute/audit",
        "secrets",
        "Projects/.hidden.md",
        "not-there",
        "AGENTS.md",
        "AGENTS.md/deeper",
    ):
        assert await refused(daemon_rig, "GET", f"/api/ls?path={path}") == (
            404,
            f"{path} is not in the vault",
        )


async def test_a_text_is_read_with_its_digest(tree, daemon_rig: DaemonRig):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{daemon_rig.url}/api/read?path=Projects/plan.md") as answer,
    ):
        reported = await answer.json()
        etag = answer.headers["ETag"]

    assert reported["path"] == "Projects/plan.md"
    assert reported == reported | {"content": "a plan\n", "size": 7, "hash": digest("a plan\n")}
    assert type(reported["size"]) is int
    assert etag == f'"{reported["hash"]}"'


async def test_what_is_not_text_or_too_large_is_pointed_to_the_stream(tree, daemon_rig: DaemonRig):
    (tree / "picture.png").write_bytes(b"\x89PNG\0\0")
    with (tree / "huge.md").open("wb") as file:
        file.truncate(11 << 20)
    binary = await refused(daemon_rig, "GET", "/api/read?path=picture.png")
    huge = await refused(daemon_rig, "GET", "/api/read?path=huge.md")

    assert (binary[0], huge[0]) == (415, 413)
    assert "/api/files/picture.png" in binary[1]
    assert "/api/files/huge.md" in huge[1]


async def test_a_write_makes_and_replaces_and_says_what_it_replaced(tree, daemon_rig: DaemonRig):
    made = await write(daemon_rig, "new/deep/one.md", "one\n")
    again = await write(daemon_rig, "new/deep/one.md", "two\n")
    same = await write(daemon_rig, "new/deep/one.md", "two\n")
    kept = daemon_rig.daemon.watched.objects.get(digest("one\n"))
    indexed = daemon_rig.daemon.watched.index.get("new/deep/one.md")

    assert [status for status, _ in (made, again, same)] == [200, 200, 200]
    assert (made[1]["success"], made[1]["path"], made[1]["size"], made[1]["replaced"]) == (
        True,
        "new/deep/one.md",
        4,
        None,
    )
    assert datetime.fromisoformat(made[1]["lastModified"]).utcoffset() == timedelta(0)
    assert (again[1]["replaced"], again[1]["hash"]) == (digest("one\n"), digest("two\n"))
    assert same[1]["replaced"] is None
    assert kept == b"one\n"
    assert indexed is not None
    assert indexed.digest == digest("two\n")


async def test_a_write_is_a_person_s(tree, daemon_rig: DaemonRig):
    await write(daemon_rig, "Projects/plan.md", "another\n")
    (reported,) = daemon_rig.reported("file.modified")

    assert (reported["path"], reported["by"], reported["run"], len(reported["causes"])) == (
        "Projects/plan.md",
        "person",
        None,
        1,
    )


async def test_a_write_with_a_base_is_merged_with_what_changed_since(tree, daemon_rig: DaemonRig):
    text = "".join(f"line {number}\n" for number in range(9))
    save(tree / "plan.md", text)
    base = (await get(daemon_rig, "/api/read?path=plan.md"))["hash"]
    await daemon_rig.until(lambda: base in daemon_rig.daemon.watched.objects)
    save(tree / "plan.md", text.replace("line 1\n", "line 1, theirs\n"))
    ours = text.replace("line 7\n", "line 7, ours\n")
    status, reported = await write(daemon_rig, "plan.md", ours, base_hash=base)

    assert (status, reported["merged"], reported["replaced"]) == (200, True, None)
    merged = text.replace("line 1\n", "line 1, theirs\n").replace("line 7\n", "line 7, ours\n")
    assert (tree / "plan.md").read_text() == merged
    assert reported["hash"] == digest(merged)


@pytest.mark.parametrize("how", ["body", "header"])
async def test_a_write_that_clashes_is_refused_with_both_texts(tree, how, daemon_rig: DaemonRig):
    base = (await get(daemon_rig, "/api/read?path=Projects/plan.md"))["hash"]
    await daemon_rig.until(lambda: base in daemon_rig.daemon.watched.objects)
    save(tree / "Projects/plan.md", "their plan\n")
    body = {"path": "Projects/plan.md", "content": "our plan\n"}
    given = (
        {"json": body | {"base_hash": base}}
        if how == "body"
        else {"json": body, "headers": {"If-Match": f'"{base}"'}}
    )
    status, reported = await call(daemon_rig, "PUT", "/api/write", **given)

    assert status == 409
    assert reported["conflict"] == {
        "base": "a plan\n",
        "ours": "our plan\n",
        "theirs": "their plan\n",
        "hash": reported["conflict"]["hash"],
    }
    assert (tree / "Projects/plan.md").read_text() == "their plan\n"


async def test_a_base_that_no_one_knows_is_a_clash_not_an_overwrite(tree, daemon_rig: DaemonRig):
    status, reported = await write(daemon_rig, "AGENTS.md", "x", base_hash="0" * 64)
    odd = await refused(
        daemon_rig,
        "PUT",
        "/api/write",
        json={"path": "AGENTS.md", "content": "x"},
        headers={"If-Match": "yes"},
    )

    assert (status, reported["conflict"]["ours"]) == (409, "x")
    assert odd[0] == 400


async def test_programs_and_secrets_are_not_written(tree, daemon_rig: DaemonRig):
    for path in (*HIDDEN, "secrets/settings.json", "passwd"):
        await expect(daemon_rig, 404, "PUT", "/api/write", json={"path": path, "content": "x"})
    by_admin, _ = await write(daemon_rig, "Modules/m/module.py", "x")

    assert by_admin == 200
    assert (tree / ".claude/settings.json").read_text() == "{}\n"


async def test_a_link_is_written_where_it_leads(tree, daemon_rig: DaemonRig):
    status, _ = await write(daemon_rig, "alias.md", "through\n")

    assert status == 200
    assert (tree / "alias.md").is_symlink()
    assert (tree / "Projects/plan.md").read_text() == "through\n"


async def test_many_writers_at_once_lose_nothing(tree, daemon_rig: DaemonRig):
    await asyncio.gather(
        *(write(daemon_rig, "busy.md", f"text {number}\n") for number in range(12))
    )
    kept = [
        daemon_rig.daemon.watched.objects.get(digest(f"text {number}\n")) for number in range(12)
    ]

    assert all(text is not None for text in kept)
