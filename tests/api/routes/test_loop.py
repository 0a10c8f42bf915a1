from __future__ import annotations

import sqlite3

import pytest

from parachuted.errors import StorageFailedError
from tests.api.calls import call, get, key_of, post, refused
from tests.stories.life import Life, Live, note, save

GARDEN = "Projects/garden/AGENTS.md"


@pytest.fixture
def tree(vault):
    """The root watches the projects, the garden watches the house, the house watches the garden."""
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*", "{x"]))
    save(vault / GARDEN, note("Garden", watch=["Projects/house"]))
    save(vault / "Projects/house/AGENTS.md", note("House", watch=["Projects/garden"]))
    return vault


@pytest.fixture
def pair(vault):
    """The root watches the garden."""
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / GARDEN, note("Garden", focus="- dig"))
    return vault


async def run_once(life: Life, focus: str = "- sow the beans") -> dict:
    count = len(life.told("run.finished"))
    save(life.vault / GARDEN, note("Garden", focus=focus))
    await life.until(lambda: len(life.told("run.finished")) > count)
    await life.settled()
    return (await get(life, "/api/runs"))["runs"][0]


async def test_the_watchers_are_listed_with_what_they_watch_and_have_not_seen(live: Live, pair):
    async with live() as life:
        await post(life, "/api/pause")
        save(pair / GARDEN, note("Garden", focus="- sow"))
        await life.until(lambda: life.told("task.queued"))
        answer = await get(life, "/api/watches")

    (watch,) = answer["watches"]
    assert answer["count"] == 1
    assert watch == {
        "watcher": "AGENTS.md",
        "patterns": ["Projects/*"],
        "problems": [],
        "unmatched": [],
        "watched": [GARDEN],
        "unseen": [GARDEN],
        "since": watch["since"],
    }


async def test_a_task_is_listed_with_what_it_is_to_review(live: Live, pair):
    async with live() as life:
        assert await get(life, "/api/tasks") == {"tasks": [], "count": 0, "paused": False}
        assert await post(life, "/api/pause") == {"paused": True}
        save(pair / GARDEN, note("Garden", focus="- sow"))
        await life.until(lambda: life.told("task.queued"))
        answer = await get(life, "/api/tasks")
        (task,) = answer["tasks"]
        assert (answer["count"], answer["paused"]) == (1, True)
        assert set(task) == {
            "id",
            "watcher",
            "state",
            "causes",
            "paths",
            "due",
            "run",
            "attempts",
            "reason",
        }
        assert (task["watcher"], task["state"], task["paths"], task["run"]) == (
            "AGENTS.md",
            "queued",
            [GARDEN],
            None,
        )

        assert await post(life, "/api/resume") == {"paused": False}
        await life.until(lambda: life.told("run.finished"))


async def test_a_run_is_listed_and_told_whole(live: Live, pair):
    async with live() as life:
        listed = await run_once(life)
        whole = await get(life, f"/api/runs/{listed['id']}")

    assert set(listed) == {
        "id",
        "task",
        "watcher",
        "agent",
        "backend",
        "outcome",
        "reason",
        "started",
        "ended",
        "cost_usd",
        "undone",
        "wrote",
    }
    assert (listed["watcher"], listed["outcome"], listed["wrote"], listed["undone"]) == (
        "AGENTS.md",
        "changed",
        ["AGENTS.md"],
        None,
    )
    assert {key: whole[key] for key in listed if key != "wrote"} == {
        key: listed[key] for key in listed if key != "wrote"
    }
    assert [wrote["path"] for wrote in whole["wrote"]] == ["AGENTS.md"]
    assert "sow the beans" in whole["wrote"][0]["diff"]
    assert [(note["path"], note["kind"]) for note in whole["reviewed"]] == [(GARDEN, "modified")]
    assert whole["causes"][0]["path"] == GARDEN


async def test_runs_are_listed_newest_first_and_by_pages(live: Live, pair):
    async with live() as life:
        ids = [(await run_once(life, f"- step {number}"))["id"] for number in range(3)]
        page = await get(life, "/api/runs?limit=2")
        rest = await get(life, f"/api/runs?limit=2&before={page['runs'][-1]['id']}")

        assert [run["id"] for run in page["runs"] + rest["runs"]] == ids[::-1]
        assert (page["count"], rest["count"]) == (2, 1)
        for before in ("%00", "%FF", "x", "'; drop table runs --", "%F0%9F%92%A9"):
            await get(life, f"/api/runs?before={before}")


@pytest.mark.parametrize("run", ["x", "%FF", "r-%27", "x" * 2000, "%E2%80%A8", "-1"])
async def test_a_run_that_there_is_not_is_not_found(live: Live, run):
    async with live() as life:
        assert (await refused(life, "GET", f"/api/runs/{run}"))[0] == 404
        status, message = await refused(life, "POST", f"/api/runs/{run}/undo")
        assert status == 404
        assert len(message) < 300


async def test_an_undone_run_is_taken_back_and_says_so(live: Live, pair):
    before = (pair / "AGENTS.md").read_bytes()
    async with live() as life:
        run = await run_once(life)
        assert (pair / "AGENTS.md").read_bytes() != before
        undone = await post(life, f"/api/runs/{run['id']}/undo")
        assert undone == {
            "runs": [run["id"]],
            "paths": ["AGENTS.md"],
            "kept": {},
            "undo": undone["undo"],
        }
        assert (pair / "AGENTS.md").read_bytes() == before
        undo, taken_back = (await get(life, "/api/runs"))["runs"]
        assert (undo["id"], undo["agent"], undo["undone"]) == (undone["undo"], "undo", None)
        assert taken_back["undone"]["run"] == undo["id"]


async def test_a_plan_says_who_would_wake_in_which_order_and_does_nothing(live: Live, tree):
    async with live() as life:
        plan = await post(life, "/api/bubble/plan", {"path": GARDEN})

        assert set(plan) == {"path", "most_runs", "most_cost_usd", "runs", "loops"}
        assert (plan["path"], plan["most_runs"], plan["most_cost_usd"]) == (
            GARDEN,
            len(plan["runs"]),
            0.0,
        )
        assert all(set(run) == {"watcher", "depth", "because", "patterns"} for run in plan["runs"])
        assert {"AGENTS.md", "Projects/house/AGENTS.md"} <= {run["watcher"] for run in plan["runs"]}
        assert [set(ring) for ring in plan["loops"]] == [{GARDEN, "Projects/house/AGENTS.md"}]
        assert (await get(life, "/api/tasks"))["tasks"] == []


async def test_a_plan_may_be_asked_for_a_file_that_is_to_come_but_not_for_a_misspelled_one(
    live: Live, vault
):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "lone.md", note("Lone"))
    async with live() as life:
        assert (await post(life, "/api/bubble/plan", {"path": "Projects/new/AGENTS.md"}))[
            "most_runs"
        ] == 1
        assert (await post(life, "/api/bubble/plan", {"path": "lone.md"}))["most_runs"] == 0
        status, message = await refused(life, "POST", "/api/bubble/plan", json={"path": "lome.md"})
        assert (status, message) == (404, "lome.md is not in the vault")


async def test_those_who_watch_a_file_are_asked_to_look_now(live: Live, pair):
    async with live() as life:
        answer = await post(life, "/api/bubble/run", {"path": GARDEN})
        await life.until(lambda: life.told("run.finished"))
        await life.settled()

    assert set(answer) == {"path", "most_runs", "most_cost_usd", "runs", "loops", "cause", "tasks"}
    assert len(answer["tasks"]) == 1
    assert "[Garden]" in (pair / "AGENTS.md").read_text("utf-8")


async def test_asking_about_what_nobody_watches_is_not_found(live: Live, pair):
    async with live() as life:
        assert (await refused(life, "POST", "/api/bubble/run", json={"path": "lone.md"}))[0] == 404


async def test_why_tells_each_line_s_origin(live: Live, pair):
    async with live() as life:
        run = await run_once(life)
        answer = await get(life, "/api/why?path=AGENTS.md")
        text = (pair / "AGENTS.md").read_text("utf-8").splitlines()
        number = next(number for number, line in enumerate(text, 1) if "sow the beans" in line)
        one = await get(life, f"/api/why?path=AGENTS.md&line={number}")
        odd = await get(life, f"/api/why?path={GARDEN}&line=1")

        assert set(answer) == {"path", "lines", "runs", "chains"}
        assert answer["chains"] == {run["id"]: []}
        assert [line["text"] for line in answer["lines"]] == text
        assert set(one["lines"][0]) == {"number", "text", "by", "at", "run"}
        assert [(line["number"], line["by"], line["run"]) for line in one["lines"]] == [
            (number, "curator", run["id"])
        ]
        assert list(one["runs"]) == [run["id"]]
        assert [(line["by"], line["run"]) for line in odd["lines"]] == [("person", None)]
        assert (await refused(life, "GET", f"/api/why?path=AGENTS.md&line={len(text) + 1}"))[
            0
        ] == 404
        assert (await refused(life, "GET", "/api/why?path=none.md"))[0] == 404
        assert (await refused(life, "GET", "/api/why"))[0] == 400


async def test_a_path_that_is_no_utf8_can_be_asked_about(live: Live, vault):
    save(vault / "b\udcff.md", note("Odd"))
    async with live() as life:
        assert (await get(life, "/api/why?path=b%FF.md"))["path"] == "b\\xff.md"
        assert (await post(life, "/api/bubble/plan", {"path": "b\udcff.md"}))["path"] == "b\\xff.md"


async def test_a_scan_finds_what_no_event_told(live: Live, vault):
    async with live() as life:
        save(vault / "a.md", note("A"))
        for wrong in (1, "yes", None, []):
            assert (await refused(life, "POST", "/api/scan", json={"accept_missing": wrong}))[
                0
            ] == 400
        assert set(await post(life, "/api/scan")) == {"files"}
        await life.until(lambda: life.daemon.index.get("a.md"))
        assert await post(life, "/api/scan", {"accept_missing": True}) == {"files": 1}


async def test_the_doctor_names_each_note_that_cannot_be_read_and_why(live: Live, vault):
    (vault / "broken.md").write_bytes(b"---\na: [1\n---\n# Broken\n")
    (vault / "latin.md").write_bytes(b"# \xe9t\xe9\n")
    (vault / "watch.md").write_bytes(b"---\nwatch:\n  - '../../etc/*'\n---\n# W\n")
    save(vault / "fine.md", note("Fine"))
    async with live() as life:
        answer = await get(life, "/api/doctor")

    assert set(answer) == {"problems", "notes", "search", "history", "databases"}
    assert {note["path"] for note in answer["notes"]} == {"broken.md", "latin.md", "watch.md"}
    assert all(
        set(note) == {"path", "code", "message"} and note["message"] for note in answer["notes"]
    )


async def test_a_plan_for_a_path_that_is_neither_there_nor_watched_is_refused(live: Live, vault):
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*.md"]))
    async with live() as life:
        for path in ("Nope.md", "Nope/x.md"):
            assert await refused(life, "POST", "/api/bubble/plan", json={"path": path}) == (
                404,
                f"{path} is not in the vault",
            )
        assert (await post(life, "/api/bubble/plan", {"path": "Projects/soon.md"}))[
            "most_runs"
        ] == 1


async def test_a_key_without_the_vault_is_told_where_lines_come_from_but_not_what_they_say(
    live: Live, vault
):
    save(vault / "a.md", note("Secret"))
    async with live() as life:
        _, told = await call(
            life, "GET", "/api/why?path=a.md", headers=key_of(life, "curator:read")
        )
        _, read = await call(
            life, "GET", "/api/why?path=a.md", headers=key_of(life, "curator:read", "vault:read")
        )

    assert {line["text"] for line in told["lines"]} == {""}
    assert len(told["lines"]) == len(read["lines"])
    assert read["lines"][0]["text"] == "# Secret"


async def test_the_doctor_shows_the_state_of_every_database_to_who_sees_all(live: Live, vault):
    save(vault / "Kitchen/a.md", "beans")
    async with live() as life:
        await life.until(lambda: not life.daemon.search.is_behind)
        answer = (await get(life, "/api/doctor"))["databases"]
        _, narrow = await call(
            life, "GET", "/api/doctor", headers=key_of(life, "curator:admin", paths=["Kitchen/**"])
        )

    files = {one["file"]: one for one in answer["files"]}
    assert answer["sqlite"] == sqlite3.sqlite_version
    assert {name: files[name]["version"] for name in ("history.db", "seen.db", "search.db")} == {
        "history.db": 1,
        "seen.db": 1,
        "search.db": 3,
    }
    assert all(one["problem"] is None for one in files.values())
    assert all(files[name]["size"] > 0 for name in ("history.db", "seen.db", "search.db"))
    assert narrow["databases"] is None


async def test_the_doctor_answers_while_there_is_no_search_index(live: Live, vault, monkeypatch):
    async with live() as life:

        def fail(*_arguments: object) -> None:
            raise StorageFailedError("the search index is not made yet")

        monkeypatch.setattr(life.daemon.search, "count", fail)
        assert (await get(life, "/api/doctor"))["search"]["indexed"] == 0
