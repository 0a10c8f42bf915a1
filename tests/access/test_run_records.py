"""Runs as a key sees them whose paths are limited: what it may not read is neither named nor quoted, nor taken back."""

from __future__ import annotations

import json

from parachuted.access.filter import AccessFilter
from parachuted.access.run_records import run_as_seen
from parachuted.keys import EVERYTHING, Glob, Grant, Identity
from parachuted.vault import VaultRoot
from tests.api.calls import call, get, key_of
from tests.stories.life import Life, Live, note, save

WATCHER = "Projects/a/AGENTS.md"


async def ran(life: Life) -> str:
    """The id of the run of the note in Projects, which a change in Private led to, and which one in Other followed."""
    save(life.vault / "Private/b/AGENTS.md", note("Diary", focus="- the secret is out"))
    await life.settled()
    (run,) = [run for run in (await get(life, "/api/runs"))["runs"] if run["watcher"] == WATCHER]
    return run["id"]


def prepare(vault) -> None:
    save(vault / "Private/b/AGENTS.md", note("Diary"))
    save(vault / WATCHER, note("A", watch=["Private/*"]))
    save(vault / "Other/c/AGENTS.md", note("C", watch=["Projects/*"]))


async def test_what_a_run_reviewed_beyond_its_reader_s_paths_is_not_told(live: Live, vault):
    prepare(vault)
    async with live() as life:
        run = await ran(life)
        key = key_of(life, "curator:read,write", paths=["Projects/**"])
        told = {
            path: (await call(life, "GET", path, headers=key)) for path in (f"/api/runs/{run}", "/api/runs", f"/api/why?path={WATCHER}")
        }
        whole = await get(life, f"/api/runs/{run}")

    assert "secret" in json.dumps(whole["reviewed"])
    for path, (status, answer) in told.items():
        assert status == 200, path
        runs = (
            {"run": answer} if "id" in answer else answer["runs"] if isinstance(answer["runs"], dict) else dict(enumerate(answer["runs"]))
        )
        assert runs, path
        assert "Private" not in json.dumps([{**one, "wrote": []} for one in runs.values()]), path  # what it wrote is in a note that is seen
    alone = told[f"/api/runs/{run}"][1]
    assert (alone["id"], alone["reviewed"], alone["steps"], alone["reason"]) == (run, [], [], "")


async def test_a_run_whose_consequences_a_key_may_not_see_is_not_taken_back_by_it(live: Live, vault):
    prepare(vault)
    async with live() as life:
        run = await ran(life)
        before = (vault / "Other/c/AGENTS.md").read_text()
        status, _ = await call(life, "POST", f"/api/runs/{run}/undo", headers=key_of(life, "curator:write", paths=["Projects/**"]))
        assert (status, (vault / "Other/c/AGENTS.md").read_text()) == (403, before)
        both = key_of(life, "curator:write", paths=["Projects/**", "Other/**"])
        assert (await call(life, "POST", f"/api/runs/{run}/undo", headers=both))[0] == 200


async def test_a_plan_tells_of_runs_that_are_seen(live: Live, vault):
    prepare(vault)
    async with live() as life:
        key = key_of(life, "curator:read", paths=["Projects/**"])
        _, plan = await call(life, "POST", "/api/bubble/plan", json={"path": WATCHER}, headers=key)
        _, whole = await call(life, "POST", "/api/bubble/plan", json={"path": WATCHER})

    assert [run["watcher"] for run in whole["runs"]] == ["Other/c/AGENTS.md"]
    assert plan["runs"] == []


async def test_the_doctor_tells_of_notes_that_are_seen(live: Live, vault):
    for folder in ("Private", "Projects"):
        save(vault / f"{folder}/x.md", '---\nwatch: "/etc/*"\n---\n# X\n')
    async with live() as life:
        key = key_of(life, "curator:admin", paths=["Projects/**"])
        _, told = await call(life, "GET", "/api/doctor", headers=key)
        whole = await get(life, "/api/doctor")

    assert {one["path"] for one in whole["notes"]} == {"Private/x.md", "Projects/x.md"}
    assert {one["path"] for one in told["notes"]} == {"Projects/x.md"}


def test_who_sees_all_is_told_the_document_as_it_is(tmp_path):
    run = {
        "id": "r",
        "causes": [{"id": "c", "path": "a.md"}],
        "reviewed": [{"path": "a.md"}],
        "reviewed_count": 1,
        "reason": "x",
        "steps": [1],
    }
    everything = Identity(kind="loopback", id="l", name="l", scopes=EVERYTHING).grant("curator", "read")
    of_a = Grant(alternatives=(((Glob("a.md"),),),))

    assert run_as_seen(run, AccessFilter(VaultRoot(tmp_path), everything)) is run
    assert run_as_seen(run, AccessFilter(VaultRoot(tmp_path), of_a)) == run
