"""An act: what a person has done to files in one go is a run of its own."""

from __future__ import annotations

import pytest

from parachuted.access.caller import Caller, WorkRequest
from parachuted.history.run_account import CallRun, new_act, save
from parachuted.history.undo import Undo
from parachuted.vault import UNDO, Author, VaultPath
from tests.tools.conftest import ToolsRig

NOTE = VaultPath("note.md")


def test_an_act_is_started_before_it_is_done_and_tells_what_came_of_it(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\n")
    act = new_act(
        UNDO, tools_rig.now, watcher="note.md", reason="took back r-1", takes_back=["r-1"]
    )
    act.begin(tools_rig.store)
    assert [one["id"] for one in tools_rig.history.unended()] == [act.run]
    tools_rig.store.replace(NOTE, b"b\n", act.author)
    document = act.end(tools_rig.store, "took back r-1")

    assert tools_rig.history.unended() == []
    assert tools_rig.history.run(act.run) == document
    assert (document["outcome"], document["causes"], document["takes_back"]) == (
        "changed",
        [],
        ["r-1"],
    )
    assert [(one["path"], "-a\n+b\n" in one["diff"]) for one in document["wrote"]] == [
        ("note.md", True)
    ]


def test_an_act_that_changed_nothing_says_so_and_may_be_a_cause(tools_rig: ToolsRig):
    act = new_act(UNDO, tools_rig.now, watcher="note.md", reason="nothing", carries=True)
    assert act.end(tools_rig.store, "nothing")["outcome"] == "unchanged"
    assert act.author == Author(by=UNDO, run=act.run, causes=act.causes)
    assert (
        [cause["id"] for cause in tools_rig.history.run(act.run)["causes"]]
        == list(act.causes)
        != []
    )


A, B = VaultPath("a.md"), VaultPath("b.md")


def author_of(call: CallRun) -> Author:
    return Author(by="module:daily", run=call.run, causes=call.causes)


@pytest.fixture
def call(rig) -> CallRun:
    asked = Caller(request=WorkRequest(by="person", who="phone"))
    return CallRun(rig.store, "create", asked)


def write(rig, call: CallRun, path: VaultPath, text: bytes) -> str:
    with call.writing("module:daily", path):
        rig.store.create(path, text, author_of(call))
        return str(call.run)


def test_all_writes_of_a_call_are_one_run_with_one_cause(rig, call):
    run = write(rig, call, A, b"a\n")
    assert write(rig, call, B, b"b\n") == run
    call.close()

    document = rig.store.history.run(run)
    assert [one["path"] for one in document["wrote"]] == ["a.md", "b.md"]
    assert (document["outcome"], document["reason"]) == ("changed", "create, asked for by phone")
    assert len(document["causes"]) == 1
    assert call.run is None


def test_a_run_whose_end_was_never_recorded_can_be_undone(rig, call):
    run = write(rig, call, A, b"a\n")
    reverted = Undo(rig.store, None).take_back([run])
    assert [one.path for one in reverted if one.changed] == [A]
    assert rig.store.history.run(run)["outcome"] == "changed"
    assert not rig.store.history.unended()


def test_what_outlives_the_call_is_a_run_that_follows_from_it(rig, call):
    first = write(rig, call, A, b"a\n")
    call.close()
    second = write(rig, call, B, b"b\n")

    assert second != first
    assert rig.store.history.run(second)["parents"] == [first]
    assert call.run is None


def test_a_call_whose_write_changed_nothing_leaves_no_record(rig, call):
    with call.writing("module:daily", A):
        pass
    call.close()
    assert not rig.store.history.runs()


def test_the_end_of_a_call_keeps_that_it_was_undone(rig, call):
    history, run = rig.store.history, write(rig, call, A, b"a\n")
    known = history.run(run)
    save(history, {**known, "undone": {"at": known["started"], "with": run, "run": run}})
    call.close()
    assert history.run(run)["undone"]
