from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.state import StateStore, Table, TableRecord, open_state, where


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.journal"


@pytest.fixture
def state(path: Path) -> StateStore:
    return open_state(path)


@pytest.fixture
def table(state: StateStore) -> Table:
    return state.table("context_watches")


@pytest.fixture
def counted(table: Table, path: Path) -> Table:
    """A table of ten numbered records, `n` from 0 to 9 under the keys 1 to 10."""
    table.insert_multiple({"n": n} for n in range(10))
    return table


def lines(path: Path) -> int:
    return len(path.read_bytes().splitlines())


def reopened(path: Path) -> dict[str, dict[str, object]]:
    return dict(open_state(path).table("context_watches").items())


def test_a_record_is_put_taken_and_dropped_by_its_key(table, path):
    table.put("a/AGENTS.md ../", {"updated_at": 1})
    table.put("b", {"updated_at": 2})

    assert table.get_record("a/AGENTS.md ../") == {"updated_at": 1}
    assert table.get_record("a/AGENTS.md ../").key == "a/AGENTS.md ../"
    assert table.drop("b")
    assert not table.drop("b")
    assert table.get_record("b") is None
    assert reopened(path) == {"a/AGENTS.md ../": {"updated_at": 1}}


def test_putting_under_the_same_key_replaces(table):
    table.put("a", {"old": 1})
    table.put("a", {"new": 1})

    assert table.items() == [("a", {"new": 1})]
    assert len(table) == 1


def test_inserted_records_are_numbered_and_found_by_number_or_digits(counted):
    assert counted.insert({"n": 10}) == "11"
    assert counted.get(doc_id=11) == counted.get(doc_id="11") == {"n": 10}
    assert [record.key for record in counted.get(doc_ids=[2, "3", 99])] == ["2", "3"]


def test_numbers_avoid_the_keys_that_are_there(table, path):
    table.put("7", {})
    table.put("no number", {})

    assert table.insert({}) == "8"
    table.put("9", {})
    assert table.insert({}) == "10"
    assert open_state(path).table("context_watches").insert({}) == "11"


def test_a_record_with_a_key_of_its_own_is_inserted_once(table):
    assert table.insert(TableRecord({"n": 1}, "a")) == "a"

    with pytest.raises(ValueError, match="already exists"):
        table.insert(TableRecord({"n": 2}, "a"))
    assert table.get_record("a") == {"n": 1}


def test_an_insert_that_fails_midway_changes_nothing(table, path):
    before = lines(path)
    with pytest.raises(ValueError, match="already exists"):
        table.insert_multiple([TableRecord({}, "a"), TableRecord({}, "b"), TableRecord({}, "a")])

    assert table.items() == []
    assert lines(path) == before


def test_search_and_its_kin_are_tinydbs_own(counted):
    assert [record["n"] for record in counted.search(where("n") > 7)] == [8, 9]
    assert counted.get(where("n") == 3).key == "4"
    assert counted.contains(where("n") == 3)
    assert not counted.contains(doc_id=99)
    assert counted.count(where("n") < 5) == 5
    assert [record.key for record in counted.all()] == [str(n) for n in range(1, 11)]


def test_updating_by_key_is_one_line_with_that_record_alone(counted, path):
    size = path.stat().st_size

    assert counted.update({"seen": True}, doc_ids=[3, "4", 99]) == ["3", "4"]
    assert path.read_bytes()[size:].endswith(
        b'[["context_watches","3",{"n":2,"seen":true}],["context_watches","4",{"n":3,"seen":true}]]\n'
    )
    assert reopened(path)["3"] == {"n": 2, "seen": True}


def test_updating_by_query_touches_what_matches(counted, path):
    assert counted.update({"n": 100}, where("n") >= 8) == ["9", "10"]
    assert [document["n"] for document in reopened(path).values()] == [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        100,
        100,
    ]


def test_updating_with_a_function_changes_in_place(counted, path):
    counted.update(lambda document: document.pop("n"), doc_ids=[1])

    assert reopened(path)["1"] == {}


def test_updating_all_writes_one_line(counted, path):
    before = lines(path)
    counted.update({"m": 0})

    assert lines(path) == before + 1
    assert all(document["m"] == 0 for document in reopened(path).values())


def test_a_function_that_raises_midway_changes_nothing(counted, path):
    def fail_late(document: dict[str, object]) -> None:
        document["paths"].append(1 / (5 - document["n"]))

    counted.update({"paths": []})
    with pytest.raises(ZeroDivisionError):
        counted.update(fail_late)

    assert all(record["paths"] == [] for record in counted)
    assert all(document["paths"] == [] for document in reopened(path).values())


def test_an_updater_may_look_at_a_record_and_then_remove_it(counted, path):
    counted._update_table(lambda table: table.pop("3"))

    assert "3" not in reopened(path)
    assert len(counted) == 9


def test_several_updates_at_once_are_one_batch(counted, path):
    before = lines(path)
    counted.update_multiple([({"n": -1}, where("n") == 1), ({"n": -2}, where("n") == 2)])

    assert lines(path) == before + 1
    assert [document["n"] for document in reopened(path).values()] == [
        0,
        -1,
        -2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
    ]


def test_upsert_updates_what_is_there_and_inserts_what_is_not(counted, path):
    assert counted.upsert(TableRecord({"m": 1}, "2")) == ["2"]
    assert counted.upsert(TableRecord({"m": 1}, "new")) == ["new"]
    assert counted.upsert({"m": 2}, where("n") == 5) == ["6"]
    assert counted.upsert({"m": 3}, where("n") == 50) == ["11"]
    assert reopened(path) == dict(counted.items())
    assert counted.get_record("2") == {"n": 1, "m": 1}


def test_removing_by_key_or_query_removes_those_alone(counted, path):
    assert counted.remove(doc_ids=[1, 99]) == ["1"]
    assert counted.remove(where("n") > 2) == [str(n) for n in range(4, 11)]
    assert reopened(path) == {"2": {"n": 1}, "3": {"n": 2}}


def test_truncating_empties_the_table_and_no_other(counted, state, path):
    state.table("other").put("a", {})
    counted.truncate()

    assert len(counted) == 0
    assert reopened(path) == {}
    assert state.table("other").get_record("a") == {}


def test_what_a_reader_does_to_its_copy_changes_no_record(table):
    table.put("a", {"resolved_paths": ["x"], "deep": {"list": [1]}})
    for record in (
        table.get_record("a"),
        table.get(doc_id="a"),
        *table.search(where("deep").exists()),
        *table,
    ):
        record["resolved_paths"].append("y")
        record["deep"]["list"].clear()

    assert table.get_record("a") == {"resolved_paths": ["x"], "deep": {"list": [1]}}
    assert table.search(where("deep").exists()) == [
        {"resolved_paths": ["x"], "deep": {"list": [1]}}
    ]
