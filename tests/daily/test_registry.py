"""The app's list of ids: it finds entries of older files, and what is wrong in it harms nothing."""

from __future__ import annotations

from pathlib import Path

from tests.daily.journal_of import DAY, daily
from tests.module_files import daily_file

read_ids = daily_file("days").read_ids


def test_bad_lines_and_other_kinds_are_left_out():
    assert read_ids(
        '{"id": "ABC123def456", "type": "entry", "path": "journals/2026-02-24.md"}\n'
        "{broken\n[]\n"
        '{"id": "planning", "path": "/home/x/Daily/journals/a.md"}\n'
        '{"id": "abc123", "type": "asset", "path": "assets/x.wav"}\n{"id": "nopath"}\n'
    ) == {"abc123def456": "Daily/journals/2026-02-24.md", "planning": "Daily/journals/a.md"}


async def test_an_id_that_looks_like_a_word_is_found_where_the_list_knows_it(tmp_path: Path):
    (tmp_path / "Daily/journals").mkdir(parents=True)
    (tmp_path / DAY).write_text("# para:planning the week\n\nWords.\n\n# Other\n\nMore.\n")
    (tmp_path / "Daily/ids.jsonl").write_text(
        '{"id": "planning", "type": "entry", "path": "journals/2026-02-24.md"}\n'
    )
    async with daily(tmp_path) as module:
        found = await module.request("GET", "/entries/para:planning")

        assert found["content"] == "Words."
        missing = await module.request("GET", "/entries/para:thinking")

    assert (missing.status, missing.body["id"]) == (404, "para:thinking")
