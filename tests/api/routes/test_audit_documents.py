"""Audit documents: the answers are of the shapes that they promise, to the letter."""

from __future__ import annotations

from tests.api.shapes import answer_of
from tests.stories.life import Live, note, save


async def test_the_audits_answers_hold_to_the_letter(live: Live, vault):
    save(vault / "AGENTS.md", note("All", watch=["a.md"]))
    save(vault / "a.md", note("A"))
    async with live() as life:
        save(vault / "a.md", note("A", focus="- changed"))
        await life.until(lambda: life.told("run.finished"))
        page = await answer_of(life, "GET", "/api/audit?limit=500")
        verdict = await answer_of(life, "GET", "/api/audit/verify")

    assert {event["event_type"] for event in page["events"]} >= {
        "agent_start",
        "agent_end",
        "mcp_call",
        "write",
    }
    assert verdict["holds"]
