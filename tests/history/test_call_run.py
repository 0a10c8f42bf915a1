"""A call's writes are one run; what outlives the call is a run each time that it writes."""

from __future__ import annotations

import pytest

from parachuted.access.authority import Authority
from parachuted.history.run_account import CallRun, save
from parachuted.history.undo import Undo
from parachuted.vault import Author, VaultPath

A, B = VaultPath("a.md"), VaultPath("b.md")


def author_of(call: CallRun) -> Author:
    return Author(by="module:daily", run=call.run, causes=call.causes)


@pytest.fixture
def call(store_rig) -> CallRun:
    return CallRun(store_rig.store, "create", Authority(asked_by="person", who="phone"))


def write(store_rig, call: CallRun, path: VaultPath, text: bytes) -> str:
    with call.writing("module:daily", path):
        store_rig.store.create(path, text, author_of(call))
        return str(call.run)


def test_all_writes_of_a_call_are_one_run_with_one_cause(store_rig, call):
    run = write(store_rig, call, A, b"a\n")
    assert write(store_rig, call, B, b"b\n") == run
    call.close()

    document = store_rig.store.history.run(run)
    assert [one["path"] for one in document["wrote"]] == ["a.md", "b.md"]
    assert (document["outcome"], document["reason"]) == ("changed", "create, asked for by phone")
    assert len(document["causes"]) == 1
    assert call.run is None


def test_a_run_whose_end_was_never_recorded_can_be_undone(store_rig, call):
    run = write(store_rig, call, A, b"a\n")
    reverted = Undo(store_rig.store, None).take_back([run])
    assert [one.path for one in reverted if one.changed] == [A]
    assert store_rig.store.history.run(run)["outcome"] == "changed"
    assert not store_rig.store.history.unended()


def test_what_outlives_the_call_is_a_run_that_follows_from_it(store_rig, call):
    first = write(store_rig, call, A, b"a\n")
    call.close()
    second = write(store_rig, call, B, b"b\n")

    assert second != first
    assert store_rig.store.history.run(second)["parents"] == [first]
    assert call.run is None


def test_a_call_whose_write_changed_nothing_leaves_no_record(store_rig, call):
    with call.writing("module:daily", A):
        pass
    call.close()
    assert not store_rig.store.history.runs()


def test_the_end_of_a_call_keeps_that_it_was_undone(store_rig, call):
    history, run = store_rig.store.history, write(store_rig, call, A, b"a\n")
    known = history.run(run)
    save(history, {**known, "undone": {"at": known["started"], "with": run, "run": run}})
    call.close()
    assert history.run(run)["undone"]
