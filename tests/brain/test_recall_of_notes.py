"""Recall over the whole vault: entities first, other notes too, and nothing private."""

from __future__ import annotations

from pathlib import Path

from parachuted.testing import ModuleHarness
from tests.brain.brain_of import brain, write

DAY = "Daily/journals/2026-02-24.md"
OLD = "Daily/journals/2020-01-01.md"


async def recalled(module: ModuleHarness, question: str) -> list[str]:
    found = await module.request("GET", "/recall", query={"query": question})
    assert found["matches"] == sum(one["is_match"] for one in found["results"])
    return [one["path"] for one in found["results"] if one["is_match"]]


async def test_a_journal_answers_too_after_an_entity_that_says_as_much(tmp_path: Path):
    write(tmp_path, DAY, "# Noon\n\nPlanted marigolds behind the shed.\n")
    write(tmp_path, "Brain/shed.md", "# Shed\n\nMarigolds behind the shed.\n")
    write(tmp_path, "Suggestions/s.md", "Marigolds behind the shed.\n")
    async with brain(tmp_path) as module:
        assert await recalled(module, "Where are the marigolds?") == ["Brain/shed.md", DAY]
        found = await module.request("GET", "/recall", query={"query": "who planted?"})
        best = found["results"][0]
        assert (best["para_id"], best["type"], best["path"]) == (DAY, "", DAY)

        write(tmp_path, DAY, "# Noon\n\nPlanted tulips.\n")
        await module.event("file.modified", path=DAY)
        assert await recalled(module, "marigolds") == ["Brain/shed.md"]
        assert await recalled(module, "tulips") == [DAY]
        (tmp_path / DAY).rename(tmp_path / OLD)
        await module.event("file.moved", **{"path": OLD, "from": DAY})
        assert await recalled(module, "tulips") == [OLD]
        (tmp_path / OLD).unlink()
        await module.event("file.deleted", path=OLD)
        assert await recalled(module, "tulips") == []


async def test_what_matched_no_word_is_marked_as_only_the_nearest(tmp_path: Path):
    write(tmp_path, DAY, "# Noon\n\nPlanted marigolds.\n")
    async with brain(tmp_path) as module:
        found = await module.request("GET", "/recall", query={"query": "zeppelins"})
        assert found["matches"] == 0
        assert not any(one["is_match"] for one in found["results"])


async def test_what_is_private_or_becomes_it_answers_nothing(tmp_path: Path):
    part = "# Noon\n\nOpen.\n\n## Doctor{}\n\nXANTHOSIS found.\n"
    write(tmp_path, DAY, part.format(""))
    write(tmp_path, OLD, "---\nprivate: true\n---\n# XANTHOSIS\n\nXANTHOSIS\n")
    heading = "# XANTHOSIS #private\n\nXANTHOSIS\n"
    write(tmp_path, "Notes/heading.md", heading)
    async with brain(tmp_path) as module:
        assert await recalled(module, "xanthosis") == [DAY]
        write(tmp_path, DAY, part.format(" #private"))
        await module.event("file.modified", path=DAY)
        found = await module.request("GET", "/recall", query={"query": "xanthosis open"})
        assert "XANTHOSIS" not in str(found["results"])
        assert await recalled(module, "xanthosis") == []
