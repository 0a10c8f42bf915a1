from __future__ import annotations

import base64

import pytest

from tests.api.calls import call, expect, key_of
from tests.stories.daemon_rig import DaemonRig, Live, save


@pytest.fixture
def tree(vault):
    save(vault / "Daily/plan.md", "a plan\n")
    save(vault / "Daily/private/diary.md", "a secret\n")
    save(vault / "Projects/plan.md", "another plan\n")
    (vault / "Daily/peek.md").symlink_to("private/diary.md")
    (vault / "Daily/door").symlink_to("../Projects")
    return vault


async def sync(daemon_rig, key: dict[str, str], what: str, **body: object) -> tuple[int, dict]:
    return await call(daemon_rig, "POST", f"/api/sync/{what}", json=body, headers=key)


async def test_a_key_of_some_paths_sees_and_takes_those_alone(tree, daemon_rig: DaemonRig):
    key = key_of(daemon_rig, "vault:read,write", paths=["Daily/*"])
    _, manifest = await call(daemon_rig, "GET", "/api/sync/manifest?pattern=*", headers=key)
    _, changes = await call(daemon_rig, "GET", "/api/sync/changes?since=0&pattern=*", headers=key)
    _, whole = await call(daemon_rig, "GET", "/api/sync/manifest?pattern=*")
    wanted = [
        "Daily/plan.md",
        "Daily/private/diary.md",
        "Projects/plan.md",
        "Daily/peek.md",
        "Daily/door/plan.md",
        "Daily/none.md",
    ]
    _, pulled = await sync(daemon_rig, key, "pull", paths=wanted)

    assert (
        [file["path"] for file in manifest["files"]]
        == [file["path"] for file in changes["files"]]
        == ["Daily/plan.md"]
    )
    assert len(whole["files"]) == 3
    assert [file["path"] for file in pulled["files"]] == ["Daily/plan.md"]
    assert {error.partition(": ")[2].partition(" is ")[2] for error in pulled["errors"]} == {
        "not in the vault"
    }


async def test_a_key_of_some_paths_changes_those_alone(tree, daemon_rig: DaemonRig):
    beyond = [
        "Daily/private/diary.md",
        "Projects/plan.md",
        "Projects/new.md",
        "Daily/peek.md",
        "Daily/door/plan.md",
    ]
    key = key_of(daemon_rig, "vault:read,write", paths=["Daily/*"])
    _, pushed = await sync(
        daemon_rig,
        key,
        "push",
        files=[{"path": path, "content": "x"} for path in [*beyond, "Daily/new.md"]],
    )
    query = "&".join(f"paths={path}" for path in beyond)
    _, deleted = await call(
        daemon_rig, "DELETE", f"/api/sync/files?confirm=true&{query}", headers=key
    )

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
        key_of(daemon_rig, "vault:read"),
        key_of(daemon_rig, "vault:write"),
        key_of(daemon_rig, "daily:read"),
    )
    assert (await sync(daemon_rig, reader, "push", files=[]))[0] == 403
    await expect(daemon_rig, 403, "DELETE", "/api/sync/files?paths=x", headers=reader)
    assert (await sync(daemon_rig, writer, "pull", paths=[]))[0] == 403
    assert (await sync(daemon_rig, writer, "push", files=[]))[0] == 200
    status, manifest = await call(daemon_rig, "GET", "/api/sync/manifest?root=Daily", headers=daily)

    assert status == 200
    assert {file["path"] for file in manifest["files"]} == {"plan.md", "private/diary.md"}


async def test_a_link_itself_is_not_deleted_nor_what_it_leads_to(tree, daemon_rig: DaemonRig):
    _, answer = await call(daemon_rig, "DELETE", "/api/sync/files?root=Daily&paths=peek.md")

    assert (answer["deleted"], len(answer["errors"])) == (0, 1)
    assert (tree / "Daily/peek.md").is_symlink()
    assert (tree / "Daily/private/diary.md").exists()


async def test_a_pull_too_large_for_one_answer_points_to_the_stream(live: Live, tree):
    with (tree / "Daily/huge.wav").open("wb") as file:
        file.truncate(65 << 20)
    async with live() as daemon_rig:
        _, answer = await sync(daemon_rig, {}, "pull", root="Daily", paths=["huge.wav", "plan.md"])

    assert [file["path"] for file in answer["files"]] == ["plan.md"]
    assert answer["errors"] == [
        "huge.wav: it is too large for this answer; GET /api/files/Daily/huge.wav streams it"
    ]


async def test_a_folder_in_the_place_of_a_file_is_that_file_s_error(tree, daemon_rig: DaemonRig):
    sent = [
        {"path": "private", "content": "x"},
        {"path": "plan.md/deeper.md", "content": "x"},
        {"path": "ok.md", "content": "x"},
    ]
    _, answer = await sync(daemon_rig, {}, "push", root="Daily", files=sent)

    assert [result["status"] for result in answer["results"]] == ["refused", "refused", "created"]


async def test_base64_is_taken_strictly(tree, daemon_rig: DaemonRig):
    for content in ("", "QQ", "Q Q==", "====", "\u00e4", "QUJD\n"):
        file = {"path": "a.png", "content": content, "is_binary": True}
        _, answer = await sync(daemon_rig, {}, "push", root="Daily", files=[file])
        try:
            right = base64.b64decode(content, validate=True)
        except ValueError:
            assert len(answer["errors"]) == 1
        else:
            assert (tree / "Daily/a.png").read_bytes() == right
