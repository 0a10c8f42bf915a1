"""Sessions in a daemon: imports taken back whole, and keys that reach a part of them."""

from __future__ import annotations

from pathlib import Path

from parachuted.bundled import bundled_folder
from tests.api.calls import call, get, key_of, post
from tests.api.routes.test_modules import install
from tests.chat.exports import CHATGPT, CLAUDE
from tests.chat.talks import eventually
from tests.stories.daemon_rig import Live


async def test_an_import_is_taken_back_whole_and_a_key_of_some_paths_sees_no_others(
    live: Live, vault: Path
):
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "chat", "trusted")
        report = await post(daemon_rig, "/api/import", {"data": [*CHATGPT, *CLAUDE]})
        assert report["imported_count"] == 2
        rows = (await get(daemon_rig, "/api/chat"))["sessions"]
        seen, hidden = rows
        scopes = ("chat:read,write", "vault:read,write")
        key = key_of(daemon_rig, *scopes, paths=[seen["path"]], local=True)

        _, page = await call(daemon_rig, "GET", "/api/chat", headers=key)
        _, found = await call(daemon_rig, "GET", "/api/chat?search=beans", headers=key)
        assert isinstance(page, dict)
        assert [one["id"] for one in page["sessions"]] == [seen["id"]]
        assert isinstance(found, dict)
        assert hidden["id"] not in {one["id"] for one in found["sessions"]}
        for session_id in (hidden["id"], "none"):
            status, _ = await call(daemon_rig, "GET", f"/api/chat/{session_id}", headers=key)
            assert status == 404

        undone = await post(daemon_rig, f"/api/runs/{report['run']}/undo", {})
        assert len(undone["paths"]) == 2
        assert list((vault / "Chat/sessions").glob("*.md")) == []

        async def is_empty() -> bool | None:
            return (await get(daemon_rig, "/api/chat"))["sessions"] == [] or None

        assert await eventually(is_empty), "the list follows the files by their events"
