"""Daily: a journal of plain notes, over its routes and tools and from any editor."""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path

import pytest

from parachuted.errors import EditRefusedError, NotFoundError, ParachuteError
from tests.api.calls import get, post
from tests.daily.journal_of import DAY, NOON, created, daily, write
from tests.module_files import install_official
from tests.stories.daemon_rig import Live, save


@pytest.mark.usefixtures("in_utc")
async def test_an_entry_is_a_block_of_its_day_in_the_writers_time_zone(journal, tmp_path: Path):
    entry_id = await write(journal, "Met Kim.", at="2026-02-24T23:30:00-05:00")

    assert (tmp_path / DAY).read_text() == (
        f"---\ndate: 2026-02-24\nentries:\n  {entry_id.removeprefix('para:')}:\n"
        f"    type: text\n    created: 23:30\n    zone: UTC-05:00\n---\n\n"
        f"# {entry_id} 23:30\n\nMet Kim.\n\n---\n"
    )
    found = await journal.request("GET", f"/entries/{entry_id}")
    assert found["content"] == "Met Kim."
    assert created(journal) == ["Met Kim."]


@pytest.mark.usefixtures("in_utc")
@pytest.mark.parametrize("layout", ["journals", "entries"])
async def test_created_at_keeps_its_offset(tmp_path: Path, layout: str):
    async with daily(tmp_path, config={"layout": layout}) as module:
        for at, offset in (
            ("2026-01-01T10:00:00+05:30", ""),
            ("2026-01-02T23:30:00-08:00", ""),
            ("2026-01-03T00:10:00+14:00", ""),
            ("2026-01-04T10:00:00Z", ""),
            ("2026-01-05T10:00:00", "Z"),
        ):
            expected = at + offset
            body = {"content": "Met Kim.", "created_at": at}
            made = await module.request("POST", "/entries", body=body)
            assert made["created_at"] == expected
            await module.request("PATCH", f"/entries/{made['id']}", body={"content": "Met Jo."})
            found = await module.request("GET", f"/entries/{made['id']}")
            assert found["created_at"] == expected
            page = await module.request("GET", "/entries", query={"date": at[:10]})
            assert [row["created_at"] for row in page["entries"]] == [expected]
            assert ("zone:" in (tmp_path / made["path"]).read_text()) == (
                layout == "journals" and not expected.endswith("Z")
            )


async def test_what_no_journal_holds_is_refused_and_nothing_written(journal, tmp_path: Path):
    with pytest.raises(ParachuteError, match=r"offset: .*less than"):
        await journal.request("GET", "/entries", query={"offset": "9" * 30})
    for body, said in (
        ({"content": "x", "metadata": {"audio": "a\n---\nb"}}, "audio cannot hold"),
        ({"content": " "}, "needs a text, a recording or a picture"),
    ):
        with pytest.raises(EditRefusedError, match=said):
            await journal.request("POST", "/entries", body=body)
    answer = await journal.request("GET", "/entries/para:daily:abcabcabcabc")
    assert answer.status == 404
    assert answer.body["detail"] == "There is no entry para:daily:abcabcabcabc."
    assert answer.body["id"] == "para:daily:abcabcabcabc"
    assert not (tmp_path / "Daily").exists()


async def test_entries_made_at_once_are_all_kept(journal):
    await asyncio.gather(*(write(journal, f"Thought {n}") for n in range(12)))

    page = await journal.request("GET", "/entries", query={"date": "2026-02-24"})
    assert page["count"] == 12
    assert {row["snippet"] for row in page["entries"]} == {f"Thought {n}" for n in range(12)}
    assert sorted(created(journal)) == sorted(f"Thought {n}" for n in range(12))


async def test_an_entry_typed_in_an_editor_is_announced_once(journal, tmp_path: Path):
    await write(journal, "First")
    path = tmp_path / DAY
    path.write_text(path.read_text() + "\n# Evening\n\nTyped by hand.\n")
    await journal.event("file.modified", path=DAY)
    await journal.event("file.modified", path=DAY)

    assert created(journal) == ["First", "Typed by hand."]
    assert await journal.tool("daily-search", query="HAND typed")

    path.write_text(path.read_text().replace("Evening", "Late").replace("by hand", "again"))
    await journal.event("file.modified", path=DAY)

    assert created(journal) == ["First", "Typed by hand."]
    assert [n for n, _ in journal.published].count("daily.entry.updated") == 1


async def test_what_was_there_before_is_not_news(tmp_path: Path):
    (tmp_path / "Daily/journals").mkdir(parents=True)
    (tmp_path / DAY).write_text("# Old\n\nLong ago.\n")

    async with daily(tmp_path) as module:
        page = await module.request("GET", "/entries")

        assert [row["title"] for row in page["entries"]] == ["Old"]
        assert module.published == []


async def test_an_edit_a_removal_and_a_move_leave_the_rest_of_the_day(journal, tmp_path: Path):
    first, second = await write(journal, "First"), await write(journal, "Second")
    before = (tmp_path / DAY).read_text()
    changed = await journal.request("PATCH", f"/entries/{first}", body={"content": "Better"})
    assert changed["content"] == "Better"
    assert (tmp_path / DAY).read_text() == before.replace("First", "Better")

    await journal.request("DELETE", f"/entries/{second}")
    page = await journal.request("GET", "/entries")
    assert [row["snippet"] for row in page["entries"]] == ["Better"]
    assert second.removeprefix("para:") not in (tmp_path / DAY).read_text()

    moved = "Daily/journals/2026-02-25.md"
    (tmp_path / DAY).rename(tmp_path / moved)
    await journal.event("file.moved", **{"path": moved, "from": DAY})
    assert created(journal) == ["First", "Second"], "none is new"
    assert (await journal.request("GET", f"/entries/{first}"))["path"] == moved
    assert (await journal.request("GET", "/entries"))["count"] == 1


async def test_other_modules_and_agents_read_the_journal(tmp_path: Path):
    async with daily(tmp_path) as module:
        made = await module.tool("daily-create", content="By an agent")
        await write(module, "Earlier")
        journal = module.interface("JournalInterface")

        assert (await journal.get(made)).content == "By an agent"
        recent = await journal.get_recent_entries(1)
        assert [entry.content for entry in recent] == ["By an agent"]
        day = await module.tool("daily-journal", day=date(2026, 2, 24).isoformat())
        assert [entry["content"] for entry in day] == ["Earlier"]
        assert len(await module.tool("daily-today")) == 1


async def test_an_app_may_say_what_kind_of_entry_it_is_and_more_than_is_known(
    journal, tmp_path: Path
):
    answer = await journal.request(
        "POST",
        "/entries",
        body={
            "content": "A walk",
            "created_at": NOON,
            "metadata": {"type": "voice", "audio": "assets/a.wav", "duration": 42, "mood": "!"},
        },
    )

    found = await journal.request("GET", f"/entries/{answer['id']}")
    assert found["metadata"] == {
        "type": "voice",
        "audio": "assets/a.wav",
        "duration": 42,
        "status": "complete",
    }
    assert "    duration: 42\n" in (tmp_path / DAY).read_text()
    name, data = journal.published[0]
    assert (name, data["audio_path"]) == ("daily.entry.created", "Daily/assets/a.wav")


async def test_daily_runs_in_the_daemon_and_hears_an_editor(live: Live, vault: Path):
    async with live() as daemon_rig:
        await install_official(daemon_rig, "daily")
        save(vault / DAY, "# Morning\n\nTyped in an editor.\n")
        await daemon_rig.until(lambda: daemon_rig.reported("daily.entry.created"))
        page = await get(daemon_rig, "/api/daily/entries")

        assert page["entries"][0]["snippet"] == "Typed in an editor."
        made = await post(
            daemon_rig, "/api/daily/entries", {"content": "Over the API", "created_at": NOON}
        )
        assert made["path"] == DAY
        assert "---\n\n# Morning\n\nTyped in an editor.\n\n# para:" in (vault / DAY).read_text()
        assert [reported["content"] for reported in daemon_rig.reported("daily.entry.created")] == [
            "Typed in an editor.",
            "Over the API",
        ]


async def test_a_person_writes_shows_and_finds_entries_on_the_command_line(tmp_path: Path):
    async with daily(tmp_path) as module:
        made = await module.command("add", words="Sowed the beans.")
        (shown,) = await module.command("show")
        (found,) = await module.command("search", words="beans")

        lines = await module.command("show", as_text=True)
        (tmp_path / DAY).write_text("# Walk\n\nTo the lake.\nBack.\n")
        await module.event("file.created", path=DAY)
        command_line = await module.command("show", day="2026-02-24", as_text=True)
        dated = await module.command("search", words="lake", as_text=True)
        none = await module.command("show", day="2026-02-25", as_text=True)
        with pytest.raises(EditRefusedError, match="needs a text"):
            await module.command("add", words=" ")

    assert shown["id"] == found["id"] == made["id"]
    assert lines == f"{shown['title']}  Sowed the beans."
    assert command_line == "       Walk\n       To the lake.\n       Back."
    assert dated.startswith("2026-02-24        Walk\n")
    assert none == "There is no entry on 2026-02-25."
    assert "Sowed the beans." in (tmp_path / made["path"]).read_text()


async def test_the_doctor_names_twin_entries_and_agents_that_cannot_run(tmp_path: Path):
    async with daily(tmp_path) as module:
        entry_id = await write(module, "Met Kim.")
        copy = "Daily/journals/2026-02-25.md"
        (tmp_path / copy).write_bytes((tmp_path / DAY).read_bytes())
        await module.event("file.created", path=copy)
        (tmp_path / "Daily/.agents").mkdir()
        (tmp_path / "Daily/.agents/My Agent.md").write_text("Say hello.")
        twin, misnamed = await module.doctor()

    assert entry_id.rpartition(":")[2] in twin.problem
    assert (twin.path, copy in twin.problem) == (DAY, True)
    assert misnamed.path == "Daily/.agents/My Agent.md"


async def test_an_id_of_a_typed_entry_never_meets_the_one_that_took_its_place(
    journal, tmp_path: Path
):
    (tmp_path / DAY).parent.mkdir(parents=True)
    (tmp_path / DAY).write_text("# One\n\n1\n\n# Two\n\n2\n")
    await journal.event("file.created", path=DAY)
    two, one = [row["id"] for row in (await journal.request("GET", "/entries"))["entries"]]
    (tmp_path / DAY).write_text("# Zero\n\n0\n\n" + (tmp_path / DAY).read_text())
    await journal.event("file.modified", path=DAY)
    before = (tmp_path / DAY).read_text()

    for method in ("DELETE", "PATCH"):
        with pytest.raises(NotFoundError):
            await journal.request(method, f"/entries/{two}", body={} or None)
    assert (tmp_path / DAY).read_text() == before
    assert one != two

    first = (await journal.request("GET", "/entries"))["entries"][-1]["id"]
    changed = await journal.request("PATCH", f"/entries/{first}", body={"content": "00"})
    assert (changed["title"], changed["content"]) == ("Zero", "00")


async def test_an_id_that_a_later_file_claims_still_names_the_first_entry(journal, tmp_path: Path):
    entry_id = await write(journal, "Mine.")
    fake = "Daily/journals/2026-01-02.md"
    (tmp_path / fake).write_text((tmp_path / DAY).read_text().replace("Mine.", "Fake."))
    await journal.event("file.created", path=fake)

    assert (await journal.request("GET", f"/entries/{entry_id}"))["content"] == "Mine."


@pytest.mark.parametrize("layout", ["journals", "entries"])
async def test_an_entry_that_is_sent_again_is_there_once(tmp_path: Path, layout: str):
    body = {"content": "Sowed peas.", "created_at": NOON, "id": "abc123def456"}
    async with daily(tmp_path, config={"layout": layout}) as module:
        answers = await asyncio.gather(
            *(module.request("POST", "/entries", body=body) for _ in range(3))
        )
        (entry,) = {answer["id"] for answer in answers}
        await module.request("PATCH", f"/entries/{entry}", body={"content": "Sowed beans."})
    async with daily(tmp_path, config={"layout": layout}) as module:  # after a restart too
        tomorrow = {**body, "created_at": "2026-02-25T12:00:00-05:00"}
        again = await module.request("POST", "/entries", body=tomorrow)
        page = await module.request("GET", "/entries")

        assert (again["id"], page["count"]) == (entry, 1)
        assert page["entries"][0]["snippet"] == "Sowed beans."
        with pytest.raises(ParachuteError, match="id"):
            await module.request("POST", "/entries", body={**body, "id": "../etc"})


async def test_an_id_that_another_key_sent_first_names_another_entry(journal):
    body = {"created_at": NOON, "id": "abc123def456"}
    theirs = await journal.with_key("k_phone").request(
        "POST", "/entries", body={**body, "content": "Theirs."}
    )
    mine = await journal.request("POST", "/entries", body={**body, "content": "Mine."})

    assert mine["id"] != theirs["id"]
    found = await journal.request("GET", f"/entries/{mine['id']}")
    assert found["content"] == "Mine."


async def test_an_entry_with_an_odd_id_keeps_no_other_from_being_told_of(journal, tmp_path: Path):
    for day, odd in ((24, "a b"), (25, "a/b"), (26, "a" * 300)):
        path = f"Daily/entries/2026-02-{day}.md"
        save(tmp_path / path, f'---\nentry_id: "para:daily:{odd}"\n---\nOdd.\n')
        await journal.event("file.created", path=path)
    await write(journal, "Met Kim.")
    assert created(journal)[-1] == "Met Kim."
