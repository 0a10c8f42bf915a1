"""What a limited key may have notes watch, over a running daemon and by every way in which a note
can be written.
"""

from __future__ import annotations

import base64

from tests.api.calls import code, expect, get, key_of
from tests.stories.daemon_rig import DaemonRig, Live, note, save

WIDE = [
    *("Hidden", "Hidden/*.md", "**", "**/*.md", "*", "../Hidden", "../*", "Open*/x.md", "Ope?/**"),
    *("Hidden/x.md#Facts", "./../Hidden/"),
]
NARROW = ["Open/a", "./*.md", "Open/**", "Open/x.md@status", "!Hidden", "./"]


def text(*patterns: str) -> bytes:
    return note("Spy", watch=list(patterns)).encode()


SPY = "Open/spy.md"


async def ways(daemon_rig: DaemonRig, key: dict[str, str], data: bytes) -> set[int]:
    """The statuses of all ways to write that text."""
    markdown = {**key, "Content-Type": "text/markdown"}
    written = {"path": SPY, "content": data.decode()}
    statuses = {
        await code(daemon_rig, "PUT", where, **sent)
        for where, sent in (
            (f"/api/notes/{SPY}", {"data": data, "headers": markdown}),
            (f"/api/files/{SPY}", {"data": data, "headers": key}),
            ("/api/write", {"json": written, "headers": key}),
        )
    }
    for content, is_binary in ((base64.b64encode(data).decode(), True), (data.decode(), False)):
        file = {"path": "spy.md", "content": content, "is_binary": is_binary}
        body = {"root": "Open", "files": [file]}
        answer = await expect(daemon_rig, 200, "POST", "/api/sync/push", json=body, headers=key)
        statuses.add(422 if answer["errors"] else 200)
    return statuses


async def test_no_way_of_writing_lets_a_key_watch_what_it_may_not_read(
    vault, daemon_rig: DaemonRig
):
    save(vault / "Hidden/x.md", note("Hidden"))
    key = key_of(daemon_rig, "vault:read,write", paths=["Open/**"])
    for pattern in WIDE:
        assert await ways(daemon_rig, key, text(pattern)) == {422}, pattern
        assert not (vault / SPY).exists()
    assert await ways(daemon_rig, key, text(*NARROW)) <= {200, 201}
    for reader in (
        {},
        *(key_of(daemon_rig, words) for words in ("vault:read,write", "*:read,write,admin")),
    ):
        sent = {"data": text("**"), "headers": reader}  # who reads all may watch all
        await expect(daemon_rig, 200, "PUT", f"/api/notes/{SPY}", **sent)


async def test_a_key_of_the_frontmatter_and_a_move_are_no_way_round_it(
    vault, daemon_rig: DaemonRig
):
    save(vault / "Open/a/b/spy.md", note("Spy", watch=["../../*.md", "../x.md"]))
    key = key_of(daemon_rig, "vault:read,write", paths=["Open/**"])
    spy = "/api/notes/Open/a/b/spy.md"
    for method, where, body, status in (
        ("PATCH", spy, {"key": "watch", "value": ["Hidden"]}, 422),
        ("POST", f"{spy}/move", {"to": SPY}, 422),
        ("POST", f"{spy}/move", {"to": "Open/a/c/spy.md"}, 200),
    ):
        await expect(daemon_rig, status, method, where, json=body, headers=key)


async def test_a_list_that_its_owner_made_wide_stays_and_is_not_widened(
    vault, daemon_rig: DaemonRig
):
    save(vault / SPY, note("Spy", watch=["**", "!Hidden"]))
    key = key_of(daemon_rig, "vault:read,write", paths=["Open/**"])
    assert await ways(daemon_rig, key, text("**", "!Hidden", "./x.md")) == {200}
    assert await ways(daemon_rig, key, text("**")) == {422}


async def test_no_restore_brings_back_what_a_key_may_not_have_watched(live: Live, vault):
    save(vault / "Hidden/x.md", note("Hidden"))
    save(vault / SPY, note("Spy", watch=["Hidden/*.md"]))
    async with live() as daemon_rig:
        daemon_rig.daemon.agents.worker.pause()  # no curator's line about what is hidden
        scopes = ("vault:read,write", "curator:read", "curator:write")
        key = key_of(daemon_rig, *scopes, paths=["Open/**"])
        spy, restore = f"/api/notes/{SPY}", "/api/history/restore"
        body = {"path": SPY, "version": (await get(daemon_rig, spy))["hash"]}
        await expect(daemon_rig, 200, "PATCH", spy, json={"key": "watch", "delete": True})
        await expect(daemon_rig, 422, "POST", restore, json=body, headers=key)
        assert "Hidden" not in (vault / SPY).read_text()
        await expect(daemon_rig, 200, "POST", restore, json=body)  # who reads everything may
        await expect(daemon_rig, 200, "DELETE", spy)
        await expect(daemon_rig, 422, "POST", restore, json=body, headers=key)
        assert not (vault / SPY).exists()
