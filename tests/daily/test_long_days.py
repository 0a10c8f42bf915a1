"""A day of many entries: one more costs what the first did."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from parachuted.testing import ModuleHarness
from tests.daily.journal_of import DAY, FakeBrain, created, daily, write


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """How many lines of journals a module has parsed since it was asked last."""

    def count_from(module: ModuleHarness) -> list[int]:
        package = type(module.instance).__module__.rpartition(".")[0]
        journal = sys.modules[f"{package}.journal"]
        lines, parse = [0], journal.parse

        def counting(text: str) -> Any:
            lines[0] += text.count("\n")
            return parse(text)

        monkeypatch.setattr(journal, "parse", counting)
        return lines

    return count_from


@pytest.mark.parametrize(
    "interfaces", [{}, {"BrainInterface": FakeBrain()}], ids=["alone", "brain"]
)
@pytest.mark.parametrize("words", ["Thought {}\n\n- one\n- two", "Thought {} of Kim"])
async def test_one_more_entry_parses_no_more_on_a_long_day_than_on_a_short_one(
    tmp_path: Path, parsed, interfaces: dict[str, object], words: str
):
    async with daily(tmp_path, interfaces=interfaces) as module:
        lines, costs = parsed(module), []
        for number in range(24):
            lines[0] = 0
            await write(module, words.format(number))
            await module.event("file.modified", path=DAY)
            costs.append(lines[0])
        assert costs[-1] <= costs[2], costs
        assert created(module) == [words.format(number) for number in range(24)]


async def test_what_an_editor_adds_between_two_entries_is_announced(journal, tmp_path: Path):
    await write(journal, "First")
    with (tmp_path / DAY).open("a") as file:
        file.write("\n# Typed\n\nBy hand.\n")
    await write(journal, "Second")
    await journal.event("file.modified", path=DAY)
    (tmp_path / DAY).write_text((tmp_path / DAY).read_text().replace("First", "Changed"))
    await write(journal, "Third")
    await journal.event("file.modified", path=DAY)

    assert created(journal) == ["First", "By hand.", "Second", "Third"]
    updated = [data for name, data in journal.published if name == "daily.entry.updated"]
    assert [data["content"] for data in updated] == ["Changed"]


@pytest.mark.parametrize(
    "front", ["", "---\nprivate: true\n---\n", "---\r\ndate: 2026-02-24\r\n---\r\n"]
)
async def test_days_that_are_not_ours_get_their_entries_as_they_are(tmp_path: Path, front: str):
    (tmp_path / DAY).parent.mkdir(parents=True)
    (tmp_path / DAY).write_bytes(front.encode())
    async with daily(tmp_path) as module:
        ids = [await write(module, f"Thought {number}\n\nmore") for number in range(3)]
        await module.event("file.modified", path=DAY)
        expected = "" if "private" in front else "Thought {}\n\nmore"
        said = [str(one).replace("\r", "") for one in created(module)]
        assert said == [expected.format(number) for number in range(3)]
        for entry_id in ids:
            assert (await module.request("GET", f"/entries/{entry_id}"))["id"] == entry_id
