"""Runs as a key sees them whose paths are limited: what it may not read is neither named nor
quoted, nor taken back.
"""

from __future__ import annotations

import json

import pytest

from parachuted.access.filter import AccessFilter
from parachuted.access.run_records import RunFilter
from parachuted.keys import EVERYTHING, EVERYWHERE, AccessGrant, Identity, PathGlob
from parachuted.vault import VaultRoot
from tests.api.calls import call, get, key_of
from tests.stories.daemon_rig import DaemonRig, Live, note, save

WATCHER = "Projects/a/AGENTS.md"
UNDO = ("curator:write", "vault:write")


async def ran(daemon_rig: DaemonRig) -> str:
    """The id of the run of the note in Projects, which a change in Private led to, and which one in
    Other followed.
    """
    save(daemon_rig.vault / "Private/b/AGENTS.md", note("Diary", focus="- the secret is out"))
    await daemon_rig.settled()
    (run,) = [
        run for run in (await get(daemon_rig, "/api/runs"))["runs"] if run["watcher"] == WATCHER
    ]
    return run["id"]


def prepare(vault) -> None:
    save(vault / "Private/b/AGENTS.md", note("Diary"))
    save(vault / WATCHER, note("A", watch=["Private/*"]))
    save(vault / "Other/c/AGENTS.md", note("C", watch=["Projects/*"]))


async def test_what_a_run_reviewed_beyond_its_reader_s_paths_is_not_reported(live: Live, vault):
    prepare(vault)
    async with live() as daemon_rig:
        run = await ran(daemon_rig)
        key = key_of(daemon_rig, "curator:read,write", paths=["Projects/**"])
        reported = {
            path: (await call(daemon_rig, "GET", path, headers=key))
            for path in (f"/api/runs/{run}", "/api/runs", f"/api/why?path={WATCHER}")
        }
        whole = await get(daemon_rig, f"/api/runs/{run}")

    assert "secret" in json.dumps(whole["reviewed"])
    for path, (status, answer) in reported.items():
        assert status == 200, path
        runs = (
            {"run": answer}
            if "id" in answer
            else answer["runs"]
            if isinstance(answer["runs"], dict)
            else dict(enumerate(answer["runs"]))
        )
        assert runs, path
        assert "Private" not in json.dumps([{**one, "wrote": []} for one in runs.values()]), (
            path
        )  # what it wrote is in a note that is seen
    alone = reported[f"/api/runs/{run}"][1]
    assert (alone["id"], alone["reviewed"], alone["steps"], alone["reason"]) == (run, [], [], "")


async def test_a_run_whose_consequences_a_key_may_not_see_is_not_taken_back_by_it(
    live: Live, vault
):
    prepare(vault)
    async with live() as daemon_rig:
        run = await ran(daemon_rig)
        before = (vault / "Other/c/AGENTS.md").read_text()
        status, _ = await call(
            daemon_rig,
            "POST",
            f"/api/runs/{run}/undo",
            headers=key_of(daemon_rig, *UNDO, paths=["Projects/**"]),
        )
        assert (status, (vault / "Other/c/AGENTS.md").read_text()) == (403, before)
        both = key_of(daemon_rig, *UNDO, paths=["Projects/**", "Other/**"])
        assert (await call(daemon_rig, "POST", f"/api/runs/{run}/undo", headers=both))[0] == 200


async def test_a_plan_tells_of_runs_that_are_seen(live: Live, vault):
    prepare(vault)
    async with live() as daemon_rig:
        key = key_of(daemon_rig, "curator:read", paths=["Projects/**"])
        _, plan = await call(
            daemon_rig, "POST", "/api/bubble/plan", json={"path": WATCHER}, headers=key
        )
        _, whole = await call(daemon_rig, "POST", "/api/bubble/plan", json={"path": WATCHER})

    assert [run["watcher"] for run in whole["runs"]] == ["Other/c/AGENTS.md"]
    assert plan["runs"] == []


async def test_the_doctor_tells_of_notes_that_are_seen(live: Live, vault):
    for folder in ("Private", "Projects"):
        save(vault / f"{folder}/x.md", '---\nwatch: "/etc/*"\n---\n# X\n')
    async with live() as daemon_rig:
        key = key_of(daemon_rig, "curator:admin", paths=["Projects/**"])
        _, reported = await call(daemon_rig, "GET", "/api/doctor", headers=key)
        whole = await get(daemon_rig, "/api/doctor")

    assert {one["path"] for one in whole["notes"]} == {"Private/x.md", "Projects/x.md"}
    assert {one["path"] for one in reported["notes"]} == {"Projects/x.md"}


RUN: dict[str, object] = {
    "id": "r",
    "watcher": "Shop/w.md",
    "causes": [{"id": "c", "path": "Shop/a.md", "files": 2}],
    "reason": "x",
    "steps": [1],
    "reviewed": [{"path": "Shop/a.md", "units": ["U"], "diff": "d", "source": None}],
    "reviewed_count": 1,
    "prompt_digest": "p",
    "wrote": [{"path": "Shop/w.md", "diff": "d"}],
    "quotes": ["Shop/a.md", "Shop/w.md"],
    "cost_usd": 1.0,
    "input_tokens": 1,
    "output_tokens": 1,
    "parents": ["before"],
    "undone": None,
}


def of(*patterns: str) -> AccessGrant:
    return (
        AccessGrant(alternatives=((tuple(map(PathGlob, patterns)),),))
        if patterns
        else AccessGrant(alternatives=())
    )


def access(folder, sight: AccessGrant, reading: AccessGrant) -> RunFilter:
    return RunFilter(AccessFilter(VaultRoot(folder), sight), reading)


def test_who_sees_and_reads_all_gets_the_document_as_it_is(tmp_path):
    everything = Identity(kind="loopback", id="l", name="l", scopes=EVERYTHING).grant(
        "curator", "read"
    )
    assert access(tmp_path, everything, everything).shown(RUN) is RUN


@pytest.mark.parametrize(
    ("sight", "reading", "quotes", "has_words"),
    [
        (EVERYWHERE, EVERYWHERE, None, True),
        (EVERYWHERE, of("Shop/**"), RUN["quotes"], True),
        (EVERYWHERE, of("Shop/**"), None, False),
        (EVERYWHERE, of(), RUN["quotes"], False),
        (EVERYWHERE, of(), None, False),
        (of("Shop/**"), EVERYWHERE, RUN["quotes"], True),
        (of("Shop/**"), EVERYWHERE, None, False),
        (of("Shop/**"), of("Shop/w.md"), RUN["quotes"], False),
        (of("Shop/**"), EVERYWHERE, ["Shop/a.md", "Private/x.md"], False),
        (of("Shop/**"), EVERYWHERE, "Shop/a.md", False),
    ],
)
def test_words_are_for_who_may_read_all_that_they_may_repeat(
    tmp_path, sight, reading, quotes, has_words
):
    shown = access(tmp_path, sight, reading).shown({**RUN, "quotes": quotes})
    words = (
        shown["reason"],
        shown["steps"],
        shown["prompt_digest"],
        shown["reviewed"][0]["diff"],
        shown["wrote"][0]["diff"],
    )
    assert words == (("x", [1], "p", "d", "d") if has_words else ("", [], "", "", ""))
    assert shown["reviewed"][0]["units"] == (["U"] if has_words else [])


def test_a_run_without_a_list_quotes_anything(tmp_path):
    run = {name: value for name, value in RUN.items() if name != "quotes"}
    shown = access(tmp_path, of("Shop/**"), EVERYWHERE).shown(run)
    assert (shown["steps"], shown["cost_usd"], shown["input_tokens"]) == ([], 0.0, 0)


def test_runs_that_are_not_seen_are_not_named_by_those_that_are(tmp_path):
    known = {
        "before": {**RUN, "watcher": "Private/w.md", "wrote": []},
        "shop's": {**RUN, "wrote": []},
    }
    run = {
        **RUN,
        "parents": ["before", "shop's", "gone"],
        "undone": {"at": "now", "with": "before", "run": "shop's"},
    }
    shown = access(tmp_path, of("Shop/**"), EVERYWHERE).shown(run, known.get)
    assert (shown["parents"], shown["undone"]) == (["shop's"], {"at": "now", "run": "shop's"})
    assert "files" not in shown["causes"][0]


def test_where_a_reviewed_note_was_before_is_reported_to_who_sees_that_place(tmp_path):
    item = {"path": "Shop/a.md", "units": [], "diff": "", "source": "Private/x.md"}
    run = {**RUN, "reviewed": [item]}
    assert access(tmp_path, of("Shop/**"), EVERYWHERE).shown(run)["reviewed"][0]["source"] is None
    assert (
        access(tmp_path, of("Shop/**", "Private/**"), EVERYWHERE).shown(run)["reviewed"][0][
            "source"
        ]
        == "Private/x.md"
    )


def test_a_plan_counts_the_runs_that_it_tells_of(tmp_path):
    """What follows from a run that is not seen is not told either: its depth would tell how many
    lie between.
    """
    runs = [
        {"watcher": "Shop/w.md", "because": "Shop/a.md", "depth": 1, "patterns": []},
        {"watcher": "Private/w.md", "because": "Shop/w.md", "depth": 2, "patterns": []},
        {"watcher": "Shop/far.md", "because": "Private/w.md", "depth": 3, "patterns": []},
        {"watcher": "Shop/near.md", "because": "Shop/w.md", "depth": 2, "patterns": []},
    ]
    plan = {"path": "Shop/a.md", "runs": runs, "loops": [], "most_runs": 4, "most_cost_usd": 2.0}
    shown = access(tmp_path, of("Shop/**"), EVERYWHERE).plan(plan)
    assert [run["watcher"] for run in shown["runs"]] == ["Shop/w.md", "Shop/near.md"]
    assert (shown["most_runs"], shown["most_cost_usd"]) == (2, 1.0)
    assert access(tmp_path, EVERYWHERE, of()).plan(plan) == plan
