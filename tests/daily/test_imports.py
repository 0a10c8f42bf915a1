"""Imports: a plan first, and nothing twice; and the export."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import BytesResponse
from parachuted.modules.results import to_json
from parachuted.testing import ModuleHarness
from tests.daily.journal_of import created, daily, write
from tests.odd_json import with_odd_members

DAY_ONE = {
    "metadata": {"version": "1.0"},
    "entries": [
        {
            "uuid": "A1",
            "creationDate": "2026-02-25T04:30:00Z",
            "timeZone": "America/New_York",
            "text": "# Night\n\nSaw the moon\\. ![](dayone-moment://X)",
            "photos": [{"md5": "x"}],
        },
        {"uuid": "A2", "creationDate": "2026-02-26T08:00:00Z", "text": "No heading here."},
    ],
}
SOURCE = "Daily/import"


def put(vault: Path, name: str, text: str) -> None:
    file = vault / SOURCE / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


async def bring(module: ModuleHarness, **body: object) -> dict[str, object]:
    report = await module.request("POST", "/import", body={"source": SOURCE, **body})
    assert isinstance(report, dict)
    return report


@pytest.mark.parametrize("layout", ["journals", "entries"])
async def test_day_one_comes_in_once_and_goes_out_whole(tmp_path: Path, layout: str):
    put(tmp_path, "Journal.json", json.dumps(DAY_ONE))
    async with daily(tmp_path, config={"layout": layout}) as module:
        plan = await bring(module)
        assert [one["day"] for one in plan["entries"]] == ["2026-02-24", "2026-02-26"]
        assert (plan["added"], plan["media"], plan["run"]) == (2, 1, None)
        assert (await module.request("GET", "/entries"))["count"] == 0

        await bring(module, dry_run=False)
        page = await module.request("GET", "/entries")
        assert [(one["title"], one["snippet"]) for one in page["entries"]][1:] == [
            ("Night", "Saw the moon.")
        ]
        assert sorted(created(module)) == ["No heading here.", "Saw the moon."]
        again = await bring(module, dry_run=False)
        assert (again["added"], again["already_there"]) == (0, 2)
        assert (await module.request("GET", "/entries"))["count"] == 2


async def test_notes_called_by_their_date_come_in_beside_what_is_there(tmp_path: Path):
    put(tmp_path, "2026-02-24.md", "---\ntags: [a]\n---\n# A day\n\nFirst.\n\n# Later\n\nSecond.\n")
    put(tmp_path, "sub/20260225 Trip.md", "To the sea.\n")
    put(tmp_path, "2026-02-30.md", "No such day.\n")
    put(tmp_path, "readme.md", "Not one.\n")
    async with daily(tmp_path) as module:
        await write(module, "Mine.")
        done = await bring(module, dry_run=False)

        assert [one["title"] for one in done["entries"]] == ["A day", "Trip"]
        assert (await bring(module, dry_run=False))["added"] == 0
        assert len(done["problems"]) == 1
        assert "2026-02-30.md" in done["problems"][0]
        day = await module.tool("daily-journal", day="2026-02-24")
        assert [one["content"] for one in day] == ["Mine.", "First.\n\n # Later\n\nSecond."]


async def test_what_cannot_be_imported_is_said_and_other_files_are_counted(
    tmp_path: Path,
):
    for name in ("2026-01-01.md", "plan.md", "b.docx", "c.DOCX", "README"):
        put(tmp_path, name, "# Text\n\nWords.\n")
    async with daily(tmp_path) as module:
        plan = await bring(module)
        assert plan["summary"].endswith("Files of other kinds: 4.")
        put(tmp_path, "a.json", "{")
        assert "not valid JSON" in (await bring(module))["problems"][0]
        with pytest.raises(NotFoundError, match="nothing to import in Daily/none"):
            await bring(module, source="Daily/none")
        with pytest.raises(EditRefusedError, match="cp -r FOLDER VAULT/Daily/import"):
            await bring(module, source="/etc")


async def test_days_are_exported_as_markdown(journal):
    await write(journal, "Kim & <b>Lee</b>.\n\nRain.")
    await write(journal, "Another day.", at="2026-02-25T12:00:00-05:00")

    days = {"first": "2026-02-24", "last": "2026-02-24"}
    answer = await journal.request("GET", "/export", query=days)

    assert isinstance(answer, BytesResponse)
    assert answer.filename == "journal-2026-02-24-2026-02-24.md"
    assert answer.data == b"# 2026-02-24\n\n## 12:00\n\nKim & <b>Lee</b>.\n\nRain.\n"


async def test_the_command_line_shows_a_plan_imports_and_exports(tmp_path: Path):
    (tmp_path / "Daily/old").mkdir(parents=True)
    (tmp_path / "Daily/old/2025-03-01.md").write_text("# Spring\n\nSowed.\n")
    days = {"first": "2025-01-01", "last": "2025-12-31"}
    async with daily(tmp_path) as module:
        plan = await module.command("import", source="Daily/old")
        assert (plan["added"], await module.command("export", **days)) == (1, "\n")
        assert "Nothing was written. Add --apply" in plan["summary"]
        assert list(plan)[-1] == "summary"
        done = await module.command("import", source="Daily/old", apply=True)
        assert done["summary"].startswith("1 entry added;")
        assert done["run"]
        assert f"`parachute undo {done['run']}` takes it back" in done["summary"]
        again = await module.command("import", source="Daily/old", apply=True)
        text = await module.command("import", source="Daily/old", as_text=True)
        assert text.startswith("2025-03-01  Spring  (there already)\n"), text
        assert (again["added"], again["summary"]) == (0, "Nothing was written. Already there: 1.")
        assert await module.command("export", **days) == "# 2025-03-01\n\n## Spring\n\nSowed.\n"


async def test_an_entry_that_cannot_be_written_is_reported_and_the_others_go_on(tmp_path: Path):
    entries = [*DAY_ONE["entries"], {"creationDate": "2026-02-27T08:00:00Z", "text": "After."}]
    put(tmp_path, "Journal.json", json.dumps({"entries": entries}))
    blocked = tmp_path / "Daily/journals/2026-02-26.md"
    blocked.mkdir(parents=True)
    async with daily(tmp_path) as module:
        done = await bring(module, dry_run=False)
        assert [one["day"] for one in done["entries"]] == ["2026-02-24", "2026-02-27"]
        assert (done["added"], len(done["problems"])) == (2, 1)
        assert done["problems"][0].startswith("Daily/import/Journal.json, 2026-02-26 ")
        assert done["summary"].endswith("Left out, as `problems` says: 1.")

        blocked.rmdir()
        again = await bring(module, dry_run=False)
        assert (again["added"], again["already_there"], again["problems"]) == (1, 2, [])


async def test_whatever_an_entry_of_day_one_holds_is_imported_or_named(tmp_path: Path):
    at = "2021-08-01T22:30:00Z"
    entries = [
        {"uuid": "1", "creationDate": at, "timeZone": "GMT+0200", "text": "Past midnight."},
        {"uuid": "2", "creationDate": None, "text": "No date."},
        {"uuid": "3", "creationDate": at, "photos": [{}, {}]},
        {"uuid": "4", "creationDate": at, "timeZone": "UTC", "text": "# Titled\n\nSowed."},
        {"uuid": "5", "creationDate": at, "timeZone": "Mars/Olympus", "text": "Red."},
        {"uuid": "6", "creationDate": "0001-01-01T00:00:00Z", "timeZone": "Etc/GMT+5", "text": "x"},
        {"uuid": "7", "creationDate": at, "text": {"a": 1}},
        {"uuid": "1", "creationDate": at, "text": "The same one again."},
        {"uuid": "8", "creationDate": at},
        {"uuid": "9", "creationDate": at, "text": " "},
        None,
    ]
    put(tmp_path, "Journal.json", json.dumps({"entries": entries}))
    put(tmp_path, "broken.json", '{\n"entries": [}')
    put(tmp_path, "2026-02-24.md", "")
    (tmp_path / SOURCE / "2026-02-25.md").write_bytes(b"\xff")
    async with daily(tmp_path) as module:
        plan, done = await bring(module), await bring(module, dry_run=False)

        assert {one["title"]: one["day"] for one in plan["entries"] if one["title"]} == {
            "Titled": "2021-08-01"
        }
        assert (plan["added"], plan["already_there"], plan["problems"]) == (
            done["added"],
            done["already_there"],
            done["problems"],
        )
        assert (done["added"], done["already_there"], len(done["problems"])) == (3, 1, 10)
        reasons = "\n".join(done["problems"])
        for said in (
            "Journal.json, entry 2: it has no date",
            "Journal.json, entry 3: it has no text",
            "Journal.json, entry 6: '0001-01-01T00:00:00Z' is no date",
            "Journal.json, entry 7: it has no text",
            "Journal.json, entry 9: it has no text",
            "Journal.json, entry 10: it has no text",
            "Journal.json, entry 11: it is not an entry",
            "broken.json, line 2: it is not valid JSON",
            "2026-02-24.md: it is empty",
            "2026-02-25.md, line 1: it is not UTF-8 text",
        ):
            assert f"Daily/import/{said}" in reasons
        assert "'Mars/Olympus' is not known" in done["warnings"][0]
        assert done["summary"].endswith("Already there: 1. Left out, as `problems` says: 10.")
        page = await module.request("GET", "/entries")
        found = {one["snippet"]: one["created_at"] for one in page["entries"]}
        assert found["Past midnight."] == "2021-08-02T00:30:00+02:00"
        assert "Sowed." in found


@pytest.fixture(params=["Asia/Tokyo", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine is east or west of Greenwich, where other times fall off the calendar."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("year", ["0001", "9999"])
async def test_an_entry_of_the_first_or_the_last_year_is_one_like_others(
    journal, tmp_path: Path, year: str
):
    for day in (f"{year}-01-01T00:00:00Z", f"{year}-12-31T23:59:59Z"):
        await write(journal, f"Of {day}.", at=day)
    put(
        tmp_path,
        "Journal.json",
        json.dumps(
            {
                "entries": [
                    {"creationDate": f"{year}-01-01T00:00:00Z", "text": "An old one."},
                    {"creationDate": f"{year}-12-31T23:59:59Z", "text": "A late one."},
                ]
            }
        ),
    )
    put(tmp_path, f"{year}-12-31.md", "The last.")
    done = await bring(journal, dry_run=False)
    assert done["added"] + len(done["problems"]) == 3
    assert (await journal.request("GET", "/entries"))["count"] == 2 + done["added"]


_NOTE = "---\ntitle: Spring\n---\nSowed.\n"
_FULL = {
    "uuid": "full",
    "creationDate": "2021-08-01T22:30:00Z",
    "timeZone": "Europe/Rome",
    "text": "# Title\n\nWords.",
    "photos": [{"md5": "x"}],
    "tags": ["a"],
}


@settings(max_examples=10, deadline=None)
@given(
    st.lists(with_odd_members(_FULL), min_size=10, max_size=20),
    with_odd_members(DAY_ONE),
)
def test_good_entries_are_imported_and_all_are_counted(odd: list[object], other: object):
    good = [_FULL | {"uuid": f"good{number}", "text": f"Good {number}."} for number in range(3)]
    entries = [good[0], *odd[:5], good[1], *odd[5:], good[2]]

    async def imports() -> None:
        with tempfile.TemporaryDirectory() as folder:
            put(Path(folder), "Journal.json", json.dumps({"entries": entries}))
            put(Path(folder), "Other.json", json.dumps(other))
            put(Path(folder), "2021-08-03.md", _NOTE)
            async with daily(Path(folder)) as module:
                done = await bring(module, dry_run=False)
                assert "mistake of the module" not in str(to_json(done))
                lists = isinstance(other["entries"], list)
                wanted = len(entries) + (len(other["entries"]) if lists else 1) + 1
                counted = done["added"] + done["already_there"] + len(done["problems"])
                assert counted == wanted, done
                page = await module.request("GET", "/entries", query={"limit": "100"})
                assert page["count"] == done["added"]
                found = {one["snippet"] for one in page["entries"]}
                assert {"Good 0.", "Good 1.", "Good 2.", "Sowed."} <= found
                again = await bring(module, dry_run=False)
                assert (again["added"], again["problems"]) == (0, done["problems"])

    asyncio.run(imports())
