"""Anything at all may stand where Daily reads: it starts, and the good files beside it are read."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest

from parachuted.errors import ModuleFailedError, ParachuteError, StorageFailedError
from parachuted.testing import ModuleHarness
from parachuted.vault import printable
from tests.daily.journal_of import daily, write
from tests.odd_files import KINDS, ODD, changed, mistakes_in, put, put_names, state_of

AGENTS = "/api/modules/daily/agents"
TODAY = dt.datetime.now().astimezone().date().isoformat()
PLACES = (
    "Daily/.agents/odd.md",
    "Daily/.agents/reflection.md",
    "Daily/journals/2026-02-23.md",
    "Daily/entries/odd.md",
    "Daily/entries/2026-02-23.md",
    "Daily/ids.jsonl",
    f"Daily/chat-log/{TODAY}.md",
    f".parachute/activity/{TODAY}.jsonl",
    "Daily/reflection/2026-02-24.md",
    "Daily/assets/odd.md",
    "Daily/imports/2026-02-23.md",
)
GOOD = {
    "Daily/.agents/good.md": "---\nschedule: {time: 4:00}\n---\nSay what was good.\n",
    "Daily/journals/2026-02-24.md": "---\ndate: 2026-02-24\n---\n\n"
    "# para:daily:goodgoodgood 09:15\n\nPlanted heliotropes.\n",
    "Daily/entries/good.md": "---\naudio: assets/odd.md\n---\n# Good\n\nWatered heliotropes.\n",
}


def write_good(vault: Path) -> None:
    for path, text in GOOD.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)


async def ask(daily: ModuleHarness, method: str, path: str, **options: object) -> object:
    """Its answer, or None where the answer would be one of 4xx."""
    try:
        return await daily.request(method, path, **options)
    except (ModuleFailedError, StorageFailedError):
        raise
    except ParachuteError:
        return None


async def check_good(daily: ModuleHarness) -> None:
    """The good files are listed and found."""
    agents = (await daily.request("GET", f"{AGENTS}/"))["agents"]
    assert {"good", "reflection", "weekly-review"} <= {agent["name"] for agent in agents}
    assert (await daily.request("GET", f"{AGENTS}/status"))["agents"]
    assert (await daily.request("GET", f"{AGENTS}/good"))["name"] == "good"
    assert "good" in {one.name for one in await daily.schedules.list()}
    listed = (await daily.request("GET", "/entries", query={"limit": "100"}))["entries"]
    texts = "\n".join(one["snippet"] for one in listed)
    assert "Planted heliotropes." in texts
    assert "Watered heliotropes." in texts
    assert "2026-02-24" in {one["date"] for one in (await daily.request("GET", "/days"))["days"]}
    found = await daily.request("GET", "/entries/para:daily:goodgoodgood")
    assert found["content"] == "Planted heliotropes."
    assert len(await daily.tool("daily-search", query="heliotropes")) == 2


async def ask_for_odd(daily: ModuleHarness) -> None:
    """Whatever reads the odd things answers."""
    for path in (
        "/entries/odd",
        "/entries/2026-02-23",
        "/entries/unknownunkno",
        "/loops",
        f"{AGENTS}/odd",
        f"{AGENTS}/odd/transcript",
        f"{AGENTS}/reflection",
    ):
        await ask(daily, "GET", path)
    for name in ("odd", "reflection", "good"):
        day = {"date": "2026-02-24"}
        await ask(daily, "POST", f"{AGENTS}/{name}/run", body={**day, "force": True})
        await ask(daily, "POST", f"{AGENTS}/{name}/reset")
    days = {"first": "2026-02-01", "last": "2026-02-28"}
    await ask(daily, "GET", "/export", query=days)
    await daily.tool("read_chat_log", day=TODAY)
    await daily.tool("read_recent_sessions", days=2)
    await daily.tool("read_recent_journals", days=31)


@pytest.mark.parametrize("odd", ODD)
async def test_daily_starts_with_it_everywhere_and_its_good_neighbours_are_read(
    tmp_path: Path, odd: str, caplog: pytest.LogCaptureFixture
):
    write_good(tmp_path)
    for path in PLACES:
        put(odd, tmp_path / path)
    before = {path: state_of(tmp_path / path) for path in PLACES}
    written = {"Daily/reflection/2026-02-24.md"}

    async with daily(tmp_path) as module:
        await check_good(module)
        assert isinstance(await module.doctor(), list)
        await ask_for_odd(module)
        for path in PLACES:
            for event in ("file.created", "file.modified", "file.deleted"):
                await module.event(event, path=path)
        await check_good(module)
        assert module.problem is None
    async with daily(tmp_path) as module:
        await check_good(module)
    assert mistakes_in(caplog) == []

    for path in set(PLACES) - written:
        assert state_of(tmp_path / path) == before[path], path
    for path in set(GOOD):
        assert (tmp_path / path).read_text() == GOOD[path]


@pytest.mark.parametrize("odd", [kind for kind in KINDS if kind != "a folder"])
async def test_daily_starts_where_something_else_stands_for_each_of_its_folders(
    tmp_path: Path, odd: str, caplog: pytest.LogCaptureFixture
):
    folders = {path.rpartition("/")[0] for path in PLACES}
    for folder in folders - {"Daily", "Daily/.agents"}:
        put(odd, tmp_path / folder)
    (tmp_path / "Daily/.agents").mkdir(parents=True, exist_ok=True)
    (tmp_path / "Daily/.agents/good.md").write_text("Say what was good.\n")
    async with daily(tmp_path) as module:
        await ask_for_odd(module)
        assert isinstance(await module.doctor(), list)
        assert (await module.request("GET", "/entries"))["entries"] == []
        assert {"good"} <= {one.name for one in await module.schedules.list()}
    assert mistakes_in(caplog) == []


async def test_notes_of_any_name_keep_no_other_one_from_being_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    write_good(tmp_path)
    files: dict[bytes, bytes] = {}
    for folder in ("Daily/.agents", "Daily/journals", "Daily/entries"):
        files |= put_names(tmp_path / folder)
    async with daily(tmp_path) as module:
        await check_good(module)
        for path in files:
            name = printable(os.fsdecode(path.removeprefix(os.fsencode(tmp_path) + b"/")))
            for event in ("file.created", "file.deleted"):
                await module.event(event, path=name)
        assert isinstance(await module.doctor(), list)
        for row in (await module.request("GET", "/entries", query={"limit": "100"}))["entries"]:
            await ask(module, "GET", f"/entries/{row['id']}")
        await check_good(module)
    assert mistakes_in(caplog) == []
    assert changed(files) == []


async def test_the_doctor_names_each_unreadable_file_until_it_is_mended(
    tmp_path: Path,
):
    write_good(tmp_path)
    for path in PLACES:
        put("latin-1", tmp_path / path)
    read = {path for path in PLACES if path.startswith(("Daily/.a", "Daily/j", "Daily/e"))}
    async with daily(tmp_path) as module:
        assert {one.path for one in await module.doctor()} == read
        for path in read:
            await module.event("file.modified", path=path)
        assert {one.path: one.line for one in await module.doctor()} == dict.fromkeys(read, 1)
        shipped = await module.request("GET", f"{AGENTS}/reflection")
        assert shipped["schedule"]["enabled"] is False, "the person may have switched it off"

        for path in read:
            (tmp_path / path).write_text("# Fine\n\nWords.\n")
            await module.event("file.modified", path=path)
        assert await module.doctor() == []


async def test_more_agents_than_can_be_scheduled_keep_nothing_from_starting(tmp_path: Path):
    write_good(tmp_path)
    names = [f"agent-{number}" for number in range(210)] + ["a" * 240]
    for name in names:
        (tmp_path / f"Daily/.agents/{name}.md").write_text("Say what was good.\n")
    async with daily(tmp_path) as module:
        agents = (await module.request("GET", f"{AGENTS}/"))["agents"]
        assert set(names) <= {agent["name"] for agent in agents}
        scheduled = {one.name for one in await module.schedules.list()}
        named = {one.path for one in await module.doctor()}
        assert named == {f"Daily/.agents/{agent['name']}.md" for agent in agents} - {
            f"Daily/.agents/{name}.md" for name in scheduled
        }


@pytest.mark.parametrize("layout", ["journals", "entries"])
async def test_an_entry_of_the_calendars_first_or_last_day_is_written_and_read(
    tmp_path: Path, layout: str
):
    async with daily(tmp_path, config={"layout": layout}) as module:
        for at in (
            "0001-01-01T00:00:00+14:00",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59-12:00",
            "9999-12-31T23:59:59",
        ):
            made = await write(module, "Planted heliotropes.", at)
            found = await module.request("GET", f"/entries/{made}")
            assert found["content"] == "Planted heliotropes."
            (row,) = (await module.request("GET", "/entries"))["entries"]
            assert row["created_at"][:4] == at[:4]
            (day,) = (await module.request("GET", "/days"))["days"]
            assert day["date"] == at[:10]
            await module.request("DELETE", f"/entries/{made}")


async def test_a_journal_called_by_no_day_is_named_by_the_doctor_and_left_alone(tmp_path: Path):
    write_good(tmp_path)
    put("entries at no time", tmp_path / "Daily/journals/2026-13-45.md")
    async with daily(tmp_path) as module:
        await check_good(module)
        assert {one.path for one in await module.doctor()} == {"Daily/journals/2026-13-45.md"}
