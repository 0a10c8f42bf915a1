"""What Daily remembers of files: however much there is of one, nothing is forgotten."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tests.daily.journal_of import DAY, created, daily
from tests.module_files import daily_file

by_path = daily_file("by_path")


def test_what_was_put_is_there_when_the_file_is_opened_again(tmp_path: Path):
    file = tmp_path / "files.db"
    with closing(by_path.open_database(file)) as database:
        kept = by_path.ByPath(database, "seen")
        kept.put(DAY, {"a": "1", "\ud800": "2"})
        kept.put("Daily/journals/2026-02-25.md", {"b": ["3"]})
        kept.put(DAY, {"\ud800": "2", "c": "4"})
        kept.move("Daily/journals/2026-02-25.md", "Daily/journals/2026-02-26.md")

    with closing(by_path.open_database(file)) as database:
        again = by_path.ByPath(database, "seen")
        assert dict(again.get(DAY)) == {"\ud800": "2", "c": "4"}
        assert again.path_of("b") == "Daily/journals/2026-02-26.md"
        assert [*by_path.ByPath(database, "other")] == []

    file.write_bytes(b"no database" * 1_000)
    with closing(by_path.open_database(file)) as database:
        assert [*by_path.ByPath(database, "seen")] == []


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
