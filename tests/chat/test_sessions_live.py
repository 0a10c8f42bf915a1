"""Sessions in a daemon: imports taken back whole, and keys that reach a part of them."""

from __future__ import annotations

from pathlib import Path

from parachuted.home_files.bundled import bundled_folder
from tests.api.calls import get, post
from tests.api.routes.test_modules import install
from tests.chat.exports import CHATGPT, CLAUDE
from tests.chat.talks import eventually
from tests.stories.daemon_rig import Live


async def test_an_import_is_taken_back_whole(live: Live, vault: Path):
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "chat", "trusted")
        report = await post(daemon_rig, "/api/import", {"data": [*CHATGPT, *CLAUDE]})
        assert report["imported_count"] == 2
        undone = await post(daemon_rig, f"/api/runs/{report['run']}/undo", {})
        assert len(undone["paths"]) == 2
        assert list((vault / "Chat/sessions").glob("*.md")) == []

        async def is_empty() -> bool | None:
            return (await get(daemon_rig, "/api/chat"))["sessions"] == [] or None

        assert await eventually(is_empty), "the list follows the files by their events"
