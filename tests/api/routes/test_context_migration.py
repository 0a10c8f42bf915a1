"""Context migration over HTTP: who may, what it says, and that a plan changes nothing."""

from __future__ import annotations

from pathlib import Path

from tests.api.calls import get, noticed, post
from tests.stories.daemon_rig import DaemonRig, save

MIGRATION = "/api/contexts/migration"


async def test_the_plan_is_reported_and_then_done_once(vault: Path, daemon_rig: DaemonRig):
    save(vault / "Chat/contexts/garden-context.md", "# Garden\n")
    await noticed(daemon_rig)
    plan = await get(daemon_rig, MIGRATION)
    assert plan == {
        "moves": [
            {
                "file": "Chat/contexts/garden-context.md",
                "target": "Projects/garden/AGENTS.md",
                "action": "move",
                "reason": "there is no context file yet",
            }
        ],
        "count": 1,
    }
    assert not (vault / "Projects").exists()
    await post(daemon_rig, MIGRATION)
    assert (vault / "Projects/garden/AGENTS.md").read_text() == "# Garden\n"
    assert await get(daemon_rig, MIGRATION) == {"moves": [], "count": 0}
    assert await post(daemon_rig, MIGRATION) == {"run": None, "moves": [], "sessions": 0}
