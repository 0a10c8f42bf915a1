from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta

import aiohttp
import pytest

from tests.api.calls import digest, expect, get, refused
from tests.stories.daemon_rig import DaemonRig, note, save

HIDDEN = (
    *(".parachute/audit/x.jsonl", ".claude/settings.json", ".env", ".git/config"),
    *("a/.secret/note.md", ".obsidian/app.json", "..md/x"),
)
PLAN = "Projects/plan.md"


async def write(daemon_rig, path: str, content: str, status: int = 200, **more: str) -> dict:
    body = {"path": path, "content": content, **more}
    return await expect(daemon_rig, status, "PUT", "/api/write", json=body)


@pytest.fixture
def tree(vault):
    save(vault / "AGENTS.md", note("Everything"))
    save(vault / "Projects/garden/CLAUDE.md", note("Garden"))
    save(vault / PLAN, "a plan\n")
    save(vault / ".env", "SECRET=1\n")
    save(vault / ".parachute/audit/x.jsonl", "{}\n")
    save(vault / ".claude/settings.json", "{}\n")
    save(vault / "Projects/.hidden.md", "hidden\n")
    (vault / "Projects/garden/.git").mkdir()
    for name, target in {
        "alias.md": PLAN,
        "shed": "Projects/garden",
        "passwd": "/etc/passwd",
        "secrets": ".claude",
        "nowhere": "not-there",
    }.items():
        (vault / name).symlink_to(target)
    return vault


async def test_a_folder_is_listed_as_the_app_reads_it(tree, daemon_rig: DaemonRig):
    os.utime(tree / "AGENTS.md", (1_700_000_000, 1_700_000_000))
    root = (await get(daemon_rig, "/api/ls"))["entries"]
    shown = (await get(daemon_rig, "/api/ls?path=Projects&includeHidden=true"))["entries"]

    for entry in root + shown:
        assert datetime.fromisoformat(entry["lastModified"]).utcoffset() == timedelta(0)
    found = {entry["path"]: entry for entry in root}
    assert list(found) == ["Projects", "shed", "AGENTS.md", "alias.md"]
    assert (found["shed"]["type"], found["shed"]["symlinkTarget"]) == ("symlink", "Projects/garden")
    kinds = ("type", "isSymlink", "isDirectory")
    assert [found["alias.md"][kind] for kind in kinds] == ["symlink", True, False]
    assert found["AGENTS.md"]["lastModified"] == "2023-11-14T22:13:20Z"
    inside = {entry["path"]: entry for entry in shown}
    assert list(inside) == ["Projects/garden", PLAN]
    of_folders = ("type", "hasClaudeMd", "hasAgentsMd", "isGitRepo", "size")
    garden = [inside["Projects/garden"][kind] for kind in of_folders]
    assert garden == ["directory", True, False, True, None]
    assert inside[PLAN]["size"] == 7


async def test_what_is_not_there_for_the_caller_is_not_there_in_one_way(
    tree, daemon_rig: DaemonRig
):
    missing = ("nowhere-at-all.md", *HIDDEN, "passwd", "secrets/settings.json", "nowhere")
    folders = (
        *(".claude", ".parachute/audit", "secrets", "Projects/.hidden.md", "not-there"),
        *("AGENTS.md", "AGENTS.md/deeper"),
    )
    for call, paths in (("read", missing), ("ls", folders)):
        for path in paths:
            answer = await refused(daemon_rig, "GET", f"/api/{call}?path={path}")
            assert answer == (404, f"{path} is not in the vault")


async def test_a_text_is_read_with_its_digest(tree, daemon_rig: DaemonRig):
    os.utime(tree / PLAN, (1_700_000_000, 1_700_000_000))
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{daemon_rig.url}/api/read?path={PLAN}") as answer,
    ):
        reported, etag = await answer.json(), answer.headers["ETag"]

    read = {"path": PLAN, "content": "a plan\n", "size": 7, "hash": digest("a plan\n")}
    assert reported == reported | read | {"lastModified": "2023-11-14T22:13:20Z"}
    assert type(reported["size"]) is int
    assert etag == f'"{reported["hash"]}"'


async def test_what_is_not_text_or_too_large_is_pointed_to_the_stream(tree, daemon_rig: DaemonRig):
    (tree / "picture.png").write_bytes(b"\x89PNG\0\0")
    with (tree / "huge.md").open("wb") as file:
        file.truncate(11 << 20)
    for name, status in (("picture.png", 415), ("huge.md", 413)):
        where, stream = f"/api/read?path={name}", f"/api/files/{name}"
        await expect(daemon_rig, status, "GET", where, says=stream)


async def test_a_write_is_a_person_s_and_says_what_it_replaced(tree, daemon_rig: DaemonRig):
    path, watched = "new/deep/one.md", daemon_rig.daemon.watched
    made = await write(daemon_rig, path, "one\n")
    again = await write(daemon_rig, path, "two\n")
    same = await write(daemon_rig, path, "two\n")

    assert made == made | {"success": True, "path": path, "size": 4, "replaced": None}
    assert datetime.fromisoformat(made["lastModified"]).utcoffset() == timedelta(0)
    assert (again["replaced"], again["hash"]) == (digest("one\n"), digest("two\n"))
    assert same["replaced"] is None
    assert watched.objects.get(digest("one\n")) == b"one\n"
    assert watched.index.get(path).digest == digest("two\n")
    (reported,) = daemon_rig.reported("file.modified")
    assert reported == reported | {"path": path, "by": "person", "run": None}
    assert len(reported["causes"]) == 1


async def test_a_write_with_a_base_is_merged_with_what_changed_since(tree, daemon_rig: DaemonRig):
    text = "".join(f"line {number}\n" for number in range(9))
    save(tree / "plan.md", text)
    base = (await get(daemon_rig, "/api/read?path=plan.md"))["hash"]
    await daemon_rig.until(lambda: base in daemon_rig.daemon.watched.objects)
    save(tree / "plan.md", text.replace("line 1\n", "line 1, theirs\n"))
    ours = text.replace("line 7\n", "line 7, ours\n")
    reported = await write(daemon_rig, "plan.md", ours, base_hash=base)

    merged = ours.replace("line 1\n", "line 1, theirs\n")
    assert reported == reported | {"merged": True, "replaced": None, "hash": digest(merged)}
    assert (tree / "plan.md").read_text() == merged


@pytest.mark.parametrize("how", ["body", "header"])
async def test_a_write_that_clashes_is_refused_with_both_texts(tree, how, daemon_rig: DaemonRig):
    base = (await get(daemon_rig, f"/api/read?path={PLAN}"))["hash"]
    await daemon_rig.until(lambda: base in daemon_rig.daemon.watched.objects)
    save(tree / PLAN, "their plan\n")
    body = {"path": PLAN, "content": "our plan\n"}
    sent = (
        {"json": body | {"base_hash": base}}
        if how == "body"
        else {"json": body, "headers": {"If-Match": f'"{base}"'}}
    )
    conflict = (await expect(daemon_rig, 409, "PUT", "/api/write", **sent))["conflict"]

    texts = {"base": "a plan\n", "ours": "our plan\n", "theirs": "their plan\n"}
    assert conflict == {**texts, "hash": digest("their plan\n")}
    assert (tree / PLAN).read_text() == "their plan\n"


async def test_a_base_that_no_one_knows_is_a_clash_not_an_overwrite(tree, daemon_rig: DaemonRig):
    reported = await write(daemon_rig, "AGENTS.md", "x", 409, base_hash="0" * 64)
    assert reported["conflict"]["ours"] == "x"
    odd = {"json": {"path": "AGENTS.md", "content": "x"}, "headers": {"If-Match": "yes"}}
    await expect(daemon_rig, 400, "PUT", "/api/write", **odd)


async def test_programs_and_secrets_are_not_written(tree, daemon_rig: DaemonRig):
    for path in (*HIDDEN, "secrets/settings.json", "passwd"):
        await write(daemon_rig, path, "x", 404)
    await write(daemon_rig, "Modules/m/module.py", "x")  # who may do everything may

    assert (tree / ".claude/settings.json").read_text() == "{}\n"


async def test_a_link_is_written_where_it_leads(tree, daemon_rig: DaemonRig):
    await write(daemon_rig, "alias.md", "through\n")

    assert (tree / "alias.md").is_symlink()
    assert (tree / PLAN).read_text() == "through\n"


async def test_many_writers_at_once_lose_nothing(daemon_rig: DaemonRig):
    texts = [f"text {number}\n" for number in range(12)]
    await asyncio.gather(*(write(daemon_rig, "busy.md", text) for text in texts))

    objects = daemon_rig.daemon.watched.objects
    assert [text for text in texts if objects.get(digest(text)) is None] == []
