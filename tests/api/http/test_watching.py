"""What a limited key may have notes watch, over a running daemon and by every way in which a note
can be written.
"""

from __future__ import annotations

import base64
import json

import pytest

from tests.api.calls import call, code, expect, key_of
from tests.stories.daemon_rig import DaemonRig, note, save

WIDE = [
    *("Hidden", "Hidden/*.md", "**", "**/*.md", "*", "../Hidden", "../*", "Open*/x.md", "Ope?/**"),
    *("Hidden/x.md#Facts", "./../Hidden/"),
]
NARROW = ["Open/a", "./*.md", "Open/**", "Open/x.md@status", "!Hidden", "./"]


def text(*patterns: str) -> bytes:
    return note("Spy", watch=list(patterns)).encode()


async def ways(daemon_rig, key, path, data):
    """The status of each way to write that text; nothing of the vault is left but what was there
    before.
    """
    reported = {}
    for name, method, where, options in (
        (
            "put",
            "PUT",
            f"/api/notes/{path}",
            {"data": data, "headers": {**key, "Content-Type": "text/markdown"}},
        ),
        ("files", "PUT", f"/api/files/{path}", {"data": data, "headers": key}),
        (
            "write",
            "PUT",
            "/api/write",
            {"json": {"path": path, "content": data.decode()}, "headers": key},
        ),
    ):
        reported[name], _ = await call(daemon_rig, method, where, **options)
    for binary in (False, True):
        content = base64.b64encode(data).decode() if binary else data.decode()
        file = {"path": path.removeprefix("Open/"), "content": content, "is_binary": binary}
        _, answer = await call(
            daemon_rig,
            "POST",
            "/api/sync/push",
            json={"root": "Open", "files": [file]},
            headers=key,
        )
        reported[f"push {binary}"] = 422 if answer["errors"] else 200
    return reported


@pytest.mark.parametrize("pattern", WIDE)
async def test_no_way_of_writing_lets_a_key_watch_what_it_may_not_read(
    vault, pattern, daemon_rig: DaemonRig
):
    save(vault / "Hidden/x.md", note("Hidden"))
    key = key_of(daemon_rig, "vault:read,write", paths=["Open/**"])
    statuses = await ways(daemon_rig, key, "Open/spy.md", text(pattern))

    assert set(statuses.values()) == {422}, statuses
    assert not (vault / "Open/spy.md").exists()


async def test_what_a_key_may_read_its_notes_may_watch(vault, daemon_rig: DaemonRig):
    key = key_of(daemon_rig, "vault:read,write", paths=["Open/**"])
    statuses = await ways(daemon_rig, key, "Open/spy.md", text(*NARROW))

    assert set(statuses.values()) <= {200, 201}, statuses


async def test_one_key_of_the_frontmatter_is_no_way_round_it_and_neither_is_a_move(
    vault, daemon_rig: DaemonRig
):
    save(vault / "Open/a/b/spy.md", note("Spy", watch=["../../*.md", "../x.md"]))
    key = key_of(daemon_rig, "vault:read,write", paths=["Open/**"])
    set_key = await call(
        daemon_rig,
        "PATCH",
        "/api/notes/Open/a/b/spy.md",
        json={"key": "watch", "value": ["Hidden"]},
        headers=key,
    )
    moved = await call(
        daemon_rig,
        "POST",
        "/api/notes/Open/a/b/spy.md/move",
        json={"to": "Open/spy.md"},
        headers=key,
    )
    near = await call(
        daemon_rig,
        "POST",
        "/api/notes/Open/a/b/spy.md/move",
        json={"to": "Open/a/c/spy.md"},
        headers=key,
    )

    assert [set_key[0], moved[0], near[0]] == [422, 422, 200]


async def test_a_list_that_its_owner_made_wide_may_be_carried_along_but_leaves_out_no_less(
    vault, daemon_rig: DaemonRig
):
    save(vault / "Open/spy.md", note("Spy", watch=["**", "!Hidden"]))
    key = key_of(daemon_rig, "vault:read,write", paths=["Open/**"])
    kept = await ways(daemon_rig, key, "Open/spy.md", text("**", "!Hidden", "./x.md"))
    widened = await ways(daemon_rig, key, "Open/spy.md", text("**"))

    assert (set(kept.values()), set(widened.values())) == ({200}, {422})


async def test_who_reads_all_may_watch_all(vault, daemon_rig: DaemonRig):
    for key in (
        {},
        key_of(daemon_rig, "vault:read,write"),
        key_of(daemon_rig, "*:read,write,admin"),
    ):
        assert await code(
            daemon_rig, "PUT", "/api/notes/Open/spy.md", data=text("**"), headers=key
        ) in {200, 201}, json.dumps(key)


async def test_no_restore_brings_back_what_a_key_may_not_have_watched(vault, daemon_rig: DaemonRig):
    save(vault / "Hidden/x.md", note("Hidden"))
    save(vault / "Open/spy.md", note("Spy", watch=["Hidden/*.md"]))
    daemon_rig.daemon.agents.worker.pause()  # no curator's line about what is hidden
    key = key_of(daemon_rig, "vault:read,write", "curator:read", "curator:write", paths=["Open/**"])
    wide = (await call(daemon_rig, "GET", "/api/notes/Open/spy.md"))[1]["hash"]
    await call(daemon_rig, "PATCH", "/api/notes/Open/spy.md", json={"key": "watch", "delete": True})
    restore = {"path": "Open/spy.md", "version": wide}
    status, _ = await call(daemon_rig, "POST", "/api/history/restore", json=restore, headers=key)
    assert (status, "Hidden" in (vault / "Open/spy.md").read_text()) == (422, False)

    await expect(
        daemon_rig, 200, "POST", "/api/history/restore", json=restore
    )  # a reader of everything may
    await call(daemon_rig, "DELETE", "/api/notes/Open/spy.md")
    status, _ = await call(daemon_rig, "POST", "/api/history/restore", json=restore, headers=key)
    assert (status, (vault / "Open/spy.md").exists()) == (422, False)
