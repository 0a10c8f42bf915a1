"""Audit documents: the answers are of the shapes that they promise, to the letter."""

from __future__ import annotations

from tests.api.shapes import answer_of
from tests.stories.daemon_rig import Live, note, save


async def test_the_audits_answers_hold_to_the_letter(live: Live, vault):
    save(vault / "AGENTS.md", note("All", watch=["a.md"]))
    save(vault / "a.md", note("A"))
    async with live() as daemon_rig:
        save(vault / "a.md", note("A", focus="- changed"))
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        page = await answer_of(daemon_rig, "GET", "/api/audit?limit=500")
        verdict = await answer_of(daemon_rig, "GET", "/api/audit/verify")

    assert {event["event_type"] for event in page["events"]} >= {
        "agent_start",
        "agent_end",
        "mcp_call",
        "write",
    }
    assert verdict["holds"]
