from __future__ import annotations

from pathlib import Path

import pytest
from tinydb import where

from parachuted.state import StateStore, Table, open_state
from parachuted.state.table import TableRecord


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.journal"


@pytest.fixture
def state(path: Path) -> StateStore:
    return open_state(path)


@pytest.fixture
def table(state: StateStore) -> Table:
    return state.table("context_watches")


def reopened(path: Path) -> dict[str, dict[str, object]]:
    return dict(open_state(path).table("context_watches").items())


def test_a_record_is_put_taken_replaced_and_dropped_by_its_key(table, path):
    table.put("a/AGENTS.md ../", {"old": 1})
    table.put("a/AGENTS.md ../", {"updated_at": 1})
    table.put("b", {"updated_at": 2})

    record = table.get_record("a/AGENTS.md ../")
    assert (record, record.key) == ({"updated_at": 1}, "a/AGENTS.md ../")
    assert len(table) == 2
    assert table.drop("b")
    assert not table.drop("b")
    assert table.get_record("b") is None
    assert reopened(path) == {"a/AGENTS.md ../": {"updated_at": 1}}


def test_tinydb_s_own_searches_and_changes_work_on_it(table, state, path):
    state.table("other").put("a", {})
    for number in range(10):
        table.put(str(number), {"n": number})

    assert [record["n"] for record in table.search(where("n") > 7)] == [8, 9]
    assert (table.get(doc_id="3"), table.contains(where("n") == 3)) == ({"n": 3}, True)
    table.update({"n": 100}, where("n") >= 8)
    table.insert(TableRecord({"n": -1}, "new"))
    table.remove(doc_ids=[str(number) for number in range(8)])
    assert reopened(path) == {"8": {"n": 100}, "9": {"n": 100}, "new": {"n": -1}}
    table.truncate()
    assert (len(table), reopened(path)) == (0, {})
    assert state.table("other").get_record("a") == {}


def test_a_change_that_raises_midway_changes_nothing(table, path):
    table.put("a", {"n": 1})
    table.put("b", {"n": 2})
    size = path.stat().st_size

    def half(record: dict[str, object]) -> None:
        record["n"] = 1 / (2 - record["n"])

    with pytest.raises(ZeroDivisionError):
        table.update(half)
    assert dict(table.items()) == {"a": {"n": 1}, "b": {"n": 2}}
    assert path.stat().st_size == size


def test_what_a_reader_does_to_its_copy_changes_no_record(table):
    before = {"resolved_paths": ["x"], "deep": {"list": [1]}}
    table.put("a", before)
    for record in (
        table.get_record("a"),
        table.get(doc_id="a"),
        *table.search(where("deep").exists()),
        *table,
    ):
        record["resolved_paths"].append("y")
        record["deep"]["list"].clear()

    assert table.get_record("a") == {"resolved_paths": ["x"], "deep": {"list": [1]}}
