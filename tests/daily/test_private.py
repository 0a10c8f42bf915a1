"""What is marked private in the journal reaches no agent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from parachuted.access.private_text import added_to_whole, visible_to_agents
from parachuted.errors import AgentUnavailableError, NotFoundError
from parachuted.testing import ModuleHarness
from parachuted.vault import ReplaceAll, apply_edit
from tests.daily.journal_of import DAY, NOON, FakeBrain, daily
from tests.module_files import daily_file

append, new_journal = daily_file("journal").append, daily_file("journal").new_journal
Entry = daily_file("entry").Entry


def test_an_agents_entry_is_added_to_a_day_with_a_private_one():
    mine = Entry(key="aaaaaaaaaaaa", title="10:30", body="Kim is ill.", is_private=True)
    day = append(new_journal("2026-02-24"), mine)
    new = Entry(key="bbbbbbbbbbbb", title="11:30", body="Sown.")
    for text in (day, append(day, replace(new, key="cccccccccccc")), day.removesuffix("\n")):
        shown = visible_to_agents(text)
        assert "ill" not in shown
        added = added_to_whole(ReplaceAll(data=append(shown, new).encode()), text.encode())
        assert apply_edit(added, text.encode()).decode() == append(text, new)


@pytest.mark.parametrize("layout", ["journals", "entries"])
async def test_a_private_entry_is_the_persons_alone(tmp_path: Path, layout: str):
    brain = FakeBrain()
    async with daily(
        tmp_path, config={"layout": layout}, interfaces={"BrainInterface": brain}
    ) as module:
        made = await module.request(
            "POST",
            "/entries",
            body={"content": "Kim is ill.", "created_at": NOON, "metadata": {"private": True}},
        )
        entry_id, journal = made["id"], module.interface("JournalInterface")

        assert (await module.request("GET", f"/entries/{entry_id}"))["content"] == "Kim is ill."
        assert (await module.request("GET", f"/entries/{entry_id}"))["metadata"]["private"]
        assert await module.tool("daily-journal", day="2026-02-24") == []
        assert await module.tool("daily-search", query="ill") == []
        assert await journal.get_recent_entries(5) == []
        other = await journal.create("Lee is well.", {"private": True})
        assert (await module.request("GET", f"/entries/{other}"))["metadata"]["private"]
        with pytest.raises(NotFoundError):
            await journal.get(entry_id)
        assert [data["content"] for _, data in module.published] == ["", ""]
        assert brain.asked == []


async def test_a_private_section_is_left_out_of_its_entry(tmp_path: Path):
    (tmp_path / "Daily/journals").mkdir(parents=True)
    async with daily(tmp_path) as module:
        (tmp_path / DAY).write_text(
            "# Walk\n\nFar.\n\n## Health #private\n\nKnee.\n\n# Eve\n\nHm.\n"
        )
        await module.event("file.created", path=DAY)
        (walk, eve) = await module.tool("daily-journal", day="2026-02-24")

        assert walk["content"] == "Far.\n\n## (private part 1: left out)"
        assert eve["content"] == "Hm."
        page = await module.request("GET", "/entries")
        assert "Knee." in page["entries"][1]["snippet"]


async def test_an_entry_with_private_tags_and_its_loop_are_left_out(
    tmp_path: Path,
):
    (tmp_path / "Daily/journals").mkdir(parents=True)
    async with daily(tmp_path) as module:
        (tmp_path / DAY).write_text(
            "# Walk\n\n- [ ] see the doctor\n\n#todo #private\n\n# Eve\n\n#private\n\nHm.\n"
        )
        await module.event("file.created", path=DAY)

        assert await module.tool("daily-journal", day="2026-02-24") == []
        assert "doctor" not in str(await module.tool("daily-loops", days=90))
        assert await module.tool("daily-search", query="doctor") == []
        assert await module.tool("daily-search", query="Hm") == []


def _offline(_agent: str, _prompt: str) -> str:
    raise AgentUnavailableError("no model")


async def entries_with_private(module: ModuleHarness) -> None:
    for number, private in enumerate((False, True, True)):
        at = f"2026-02-24T1{number}:00:00-05:00"
        body = {"content": f"garden {number}", "created_at": at, "metadata": {"private": private}}
        await module.request("POST", "/entries", body=body)


async def test_what_is_private_counts_in_no_limit_and_its_words_find_nothing(tmp_path: Path):
    async with daily(tmp_path, answers=_offline) as module:
        await entries_with_private(module)
        (tmp_path / DAY).write_text(
            (tmp_path / DAY).read_text() + "\n# Walk\n\nFar.\n\n## Health #private\n\nKnee.\n"
        )
        await module.event("file.modified", path=DAY)
        journal = module.interface("JournalInterface")

        (found,) = await module.tool("daily-search", query="garden", limit=1)
        assert found["content"] == "garden 0"
        assert [entry.title for entry in await journal.get_recent_entries(2)] == ["Walk", "10:00"]
        assert await module.tool("daily-search", query="knee") == []
        pieces = await module.request("POST", "/query", body={"message": "knee"})
        assert next(piece for piece in pieces if piece["type"] == "entries")["entries"] == []
