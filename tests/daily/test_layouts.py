"""Both layouts beside each other: `Daily/journals/` and `Daily/entries/`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from parachuted.errors import ParachuteError
from parachuted.tools.doctor import conflict_copies
from tests.daily.journal_of import NOON, created, daily, write

ENTRIES = "Daily/entries"


def rows(page: object) -> list[object]:
    return [row["snippet"] for row in page["entries"]]


async def test_a_setting_names_the_layout_of_new_entries(tmp_path: Path):
    async with daily(tmp_path, config={"layout": "entries"}) as module:
        entry_id = await write(module, "Met Kim.", at="2026-02-24T23:30:00-05:00")

        (file,) = (tmp_path / ENTRIES).iterdir()
        assert file.name == f"2026-02-24-23-30-00-{entry_id[-12:-6]}.md"
        assert file.read_text() == (
            f"---\nentry_id: {entry_id}\ncreated_at: 2026-02-24T23:30:00-05:00\n---\n\nMet Kim.\n"
        )
        found = await module.request("GET", f"/entries/{entry_id}")
        assert (found["content"], found["title"]) == ("Met Kim.", "23:30")
        assert found["created_at"] == "2026-02-24T23:30:00-05:00"
        assert created(module) == ["Met Kim."]


async def test_another_layout_is_refused(tmp_path: Path):
    with pytest.raises(ParachuteError, match="layout: Input should be"):
        async with daily(tmp_path, config={"layout": "pages"}):
            pass


async def test_two_entries_of_one_second_from_anywhere_are_both_kept(tmp_path: Path):
    async with daily(tmp_path, config={"layout": "entries"}) as module:
        zones = ["2026-02-24T23:30:00-05:00", "2026-02-25T04:30:00Z", "2026-02-25T13:30:00+09:00"]
        await asyncio.gather(*(write(module, f"{n} at {at}", at) for at in zones for n in range(2)))

        first = await module.request("GET", "/entries", query={"date": "2026-02-24"})
        second = await module.request("GET", "/entries", query={"date": "2026-02-25"})
        assert (first["count"], second["count"]) == (2, 4)
        assert len(created(module)) == 6


async def test_a_day_holds_the_entries_of_both_layouts_by_their_time(journal, tmp_path: Path):
    await write(journal, "Noon")
    await write(journal, "Evening", at="2026-02-24T20:00:00-05:00")
    file = tmp_path / ENTRIES / "2026-02-24-15-00.md"
    file.parent.mkdir()
    file.write_text("---\ncreated_at: 2026-02-24T15:00:00-05:00\n---\nAfternoon\n")
    await journal.event("file.created", path=f"{ENTRIES}/{file.name}")

    page = await journal.request("GET", "/entries", query={"date": "2026-02-24"})
    assert rows(page) == ["Evening", "Afternoon", "Noon"]
    assert created(journal) == ["Noon", "Evening", "Afternoon"]
    assert [one["content"] for one in await journal.tool("daily-search", query="afternoon")] == [
        "Afternoon"
    ]
    found = await journal.request("GET", "/entries/2026-02-24-15-00")
    assert found["content"] == "Afternoon"


async def test_an_entry_of_its_own_file_is_changed_in_place_and_removed_with_it(tmp_path: Path):
    async with daily(tmp_path, config={"layout": "entries"}) as module:
        entry_id = await write(module, "First")
        (file,) = (tmp_path / ENTRIES).iterdir()
        file.write_text(file.read_text().replace("---\n\n", "mood: '!' # mine\n---\n\n"))
        before = file.read_text()
        changed = await module.request("PATCH", f"/entries/{entry_id}", body={"content": "Better"})

        assert changed["content"] == "Better"
        assert file.read_text() == before.replace("First", "Better")

        await module.request("DELETE", f"/entries/{entry_id}")
        assert not file.exists()
        assert (await module.request("GET", "/entries"))["count"] == 0


async def test_a_file_under_another_name_or_copied_is_not_a_new_entry(tmp_path: Path):
    async with daily(tmp_path, config={"layout": "entries"}) as module:
        entry_id = await write(module, "First")
        (file,) = (tmp_path / ENTRIES).iterdir()
        copy, moved = file.with_name("copy.md"), file.with_name("moved.md")
        copy.write_bytes(file.read_bytes())
        await module.event("file.created", path=f"{ENTRIES}/copy.md")
        copy.unlink()
        await module.event("file.deleted", path=f"{ENTRIES}/copy.md")
        file.rename(moved)
        await module.event(
            "file.moved", path=f"{ENTRIES}/moved.md", **{"from": f"{ENTRIES}/{file.name}"}
        )

        assert created(module) == ["First"]
        found = await module.request("GET", f"/entries/{entry_id}")
        assert found["path"] == f"{ENTRIES}/moved.md"


async def test_a_file_that_is_not_text_hides_no_other(tmp_path: Path):
    (tmp_path / ENTRIES).mkdir(parents=True)
    (tmp_path / ENTRIES / "broken.md").write_bytes(b"\xff\xfe\x00")
    (tmp_path / ENTRIES / "odd.md").write_text("---\n{{date}}: [\n---\nStill here\n")
    async with daily(tmp_path) as module:
        await write(module, "Noon", NOON)

        assert rows(await module.request("GET", "/entries")) == ["Noon", "Still here"]


COPIES = [
    f"Daily/{folder}/{name}"
    for folder in ("journals", "entries")
    for name in (
        "2023-03-14.sync-conflict-20230314-101010-ABCDEFG.md",
        "2023-03-14 (conflicted copy).md",
        "2023-03-14 (Jo's conflicted copy 2023-03-14).md",
    )
]


async def test_a_conflict_copy_is_no_entry_and_the_doctor_names_it(tmp_path: Path):
    text = (
        "---\nentry_id: para:daily:abc123def456\ncreated_at: 2023-03-14T10:00:00Z\n---\n\nBeans.\n"
    )
    async with daily(tmp_path) as module:
        for path in COPIES:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
            await module.event("file.created", path=path)
            assert created(module) == [], path
    async with daily(tmp_path) as module:
        assert rows(await module.request("GET", "/entries")) == []
        assert (await module.request("GET", "/days"))["days"] == []
    assert [one.path for one in conflict_copies(COPIES)] == sorted(COPIES)
