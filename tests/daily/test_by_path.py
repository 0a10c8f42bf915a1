"""What Daily remembers of files: however much there is of one, nothing is forgotten."""

from __future__ import annotations

from pathlib import Path

from tests.daily.journal_of import DAY, created, daily
from tests.module_files import daily_file

ByPath = daily_file("by_path").ByPath


async def test_more_than_one_value_of_the_state_can_hold_is_kept_and_found_again(journal):
    many = {f"# 1 Entry {number} {'ü' * 20}": "d" * 24 for number in range(8_000)}
    kept = ByPath(journal.state, "seen/")
    kept.put(DAY, many)
    kept.put("Daily/journals/2026-02-25.md", {"a": "1"})
    await kept.save()
    again = ByPath(journal.state, "seen/")
    await again.load()
    assert (again.get(DAY), again.path_of("a")) == (many, "Daily/journals/2026-02-25.md")

    again.put(DAY, {"b": "2"})
    await again.save()
    last = ByPath(journal.state, "seen/")
    await last.load()
    assert dict(last.get(DAY)) == {"b": "2"}


async def test_a_day_of_very_many_entries_and_one_long_heading_are_followed(tmp_path: Path):
    lines = [f"# Entry {number} {'x' * 60}\n\nw\n\n" for number in range(9_000)]
    (tmp_path / DAY).parent.mkdir(parents=True)
    async with daily(tmp_path) as module:
        (tmp_path / DAY).write_text("".join(lines))
        await module.event("file.created", path=DAY)
        (tmp_path / DAY).write_text("".join(lines) + f"# {'long ' * 300_000}\n\nlast words\n")
        await module.event("file.modified", path=DAY)

        assert created(module)[-1] == "last words"
        assert len(created(module)) == 9_001
        assert module.problem is None
