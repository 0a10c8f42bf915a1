from __future__ import annotations

import base64
from pathlib import Path

import pytest_asyncio

from tests.api.calls import expect, key_of, noticed
from tests.stories.daemon_rig import DaemonRig, save

BEYOND = [
    *("Daily/private/diary.md", "Projects/plan.md", "Projects/new.md"),
    *("Daily/peek.md", "Daily/door/plan.md"),
]


@pytest_asyncio.fixture(loop_scope="module")
async def tree(vault: Path, daemon_rig: DaemonRig) -> Path:
    save(vault / "Daily/plan.md", "a plan\n")
    save(vault / "Daily/private/diary.md", "a secret\n")
    save(vault / "Projects/plan.md", "another plan\n")
    (vault / "Daily/peek.md").symlink_to("private/diary.md")
    (vault / "Daily/door").symlink_to("../Projects")
    await noticed(daemon_rig)
    return vault


async def sync(
    daemon_rig: DaemonRig, what: str, key: dict[str, str], status: int = 200, **body: object
) -> dict:
    return await expect(daemon_rig, status, "POST", f"/api/sync/{what}", json=body, headers=key)


async def test_a_key_of_some_paths_sees_and_takes_those_alone(tree, daemon_rig: DaemonRig):
    key = key_of(daemon_rig, "vault:read,write", paths=["Daily/*"])
    for listing in ("manifest?pattern=*", "changes?since=0&pattern=*"):
        where = f"/api/sync/{listing}"
        found = await expect(daemon_rig, 200, "GET", where, headers=key)
        assert [file["path"] for file in found["files"]] == ["Daily/plan.md"]
        assert len((await expect(daemon_rig, 200, "GET", where))["files"]) == 3
    pulled = await sync(daemon_rig, "pull", key, paths=["Daily/plan.md", *BEYOND])

    assert [file["path"] for file in pulled["files"]] == ["Daily/plan.md"]
    whys = {error.partition(": ")[2].partition(" is ")[2] for error in pulled["errors"]}
    assert whys == {"not in the vault"}


async def test_a_key_of_some_paths_changes_those_alone(tree, daemon_rig: DaemonRig):
    key = key_of(daemon_rig, "vault:read,write", paths=["Daily/*"])
    sent = [{"path": path, "content": "x"} for path in [*BEYOND, "Daily/new.md"]]
    pushed = await sync(daemon_rig, "push", key, files=sent)
    query = "&".join(f"paths={path}" for path in BEYOND)
    where = f"/api/sync/files?confirm=true&{query}"
    deleted = await expect(daemon_rig, 200, "DELETE", where, headers=key)

    assert [result["status"] for result in pushed["results"]] == ["refused"] * 5 + ["created"]
    assert deleted["deleted"] == 0
    assert (tree / "Daily/private/diary.md").read_text() == "a secret\n"
    assert (tree / "Projects/plan.md").read_text() == "another plan\n"
    assert not (tree / "Projects/new.md").exists()
    assert (tree / "Daily/new.md").exists()


async def test_who_may_only_read_writes_nothing_and_the_other_way_round(
    tree, daemon_rig: DaemonRig
):
    reader, writer, daily = (
        key_of(daemon_rig, scope) for scope in ("vault:read", "vault:write", "daily:read")
    )
    await sync(daemon_rig, "push", reader, 403, files=[])
    await expect(daemon_rig, 403, "DELETE", "/api/sync/files?paths=x", headers=reader)
    await sync(daemon_rig, "pull", writer, 403, paths=[])
    await sync(daemon_rig, "push", writer, files=[])
    where = "/api/sync/manifest?root=Daily"
    files = (await expect(daemon_rig, 200, "GET", where, headers=daily))["files"]
    assert {file["path"] for file in files} == {"plan.md", "private/diary.md"}


async def test_a_link_itself_is_not_deleted_nor_what_it_leads_to(tree, daemon_rig: DaemonRig):
    where = "/api/sync/files?root=Daily&paths=peek.md"
    answer = await expect(daemon_rig, 200, "DELETE", where)

    assert (answer["deleted"], len(answer["errors"])) == (0, 1)
    assert (tree / "Daily/peek.md").is_symlink()
    assert (tree / "Daily/private/diary.md").exists()


async def test_a_pull_too_large_for_one_answer_points_to_the_stream(tree, daemon_rig: DaemonRig):
    with (tree / "Daily/huge.wav").open("wb") as file:
        file.truncate(65 << 20)
    answer = await sync(daemon_rig, "pull", {}, root="Daily", paths=["huge.wav", "plan.md"])

    assert [file["path"] for file in answer["files"]] == ["plan.md"]
    assert answer["errors"] == [
        "huge.wav: it is too large for this answer; GET /api/files/Daily/huge.wav streams it"
    ]


async def test_a_folder_in_the_place_of_a_file_is_that_file_s_error(tree, daemon_rig: DaemonRig):
    sent = [{"path": path, "content": "x"} for path in ("private", "plan.md/deeper.md", "ok.md")]
    answer = await sync(daemon_rig, "push", {}, root="Daily", files=sent)

    assert [result["status"] for result in answer["results"]] == ["refused", "refused", "created"]


async def test_base64_is_taken_strictly(tree, daemon_rig: DaemonRig):
    for content in ("", "QQ", "Q Q==", "====", "\u00e4", "QUJD\n"):
        file = {"path": "a.png", "content": content, "is_binary": True}
        answer = await sync(daemon_rig, "push", {}, root="Daily", files=[file])
        try:
            right = base64.b64decode(content, validate=True)
        except ValueError:
            assert len(answer["errors"]) == 1
        else:
            assert (tree / "Daily/a.png").read_bytes() == right
