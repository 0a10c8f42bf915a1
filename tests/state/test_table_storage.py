from __future__ import annotations

from pathlib import Path

import pytest
from tinydb import TinyDB, where

from parachuted.state.journal import Journal, TableStorage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.journal"


@pytest.fixture
def records(path: Path) -> TableStorage:
    return TableStorage(Journal(path))


def on_disk(path: Path) -> dict[str, object]:
    return {name: table for name, table in Journal(path).tables.items() if table}


def test_a_batch_is_one_line_and_holds_the_last_word_on_each_key(records, path):
    before = len(path.read_bytes().splitlines())
    with records.batch():
        records.put("t", "a", {"n": 1})
        records.put("t", "a", {"n": 2})
        records.put("u", "b", {})
        records.drop("u", "b")

    assert len(path.read_bytes().splitlines()) == before + 1
    assert on_disk(path) == {"t": {"a": {"n": 2}}}


def test_nothing_is_on_the_disk_before_the_batch_ends(records, path):
    with records.batch():
        records.put("t", "a", {"n": 1})

        assert on_disk(path) == {}
    assert on_disk(path) == {"t": {"a": {"n": 1}}}


def test_a_batch_that_raises_leaves_everything_as_it_was(records, path):
    records.put("t", "a", {"n": 1})
    records.put("t", "b", {"n": 1})
    size = path.stat().st_size
    with pytest.raises(ZeroDivisionError), records.batch():  # noqa: PT012
        records.put("t", "a", {"n": 2})
        records.drop("t", "b")
        records.put("t", "c", {})
        raise ZeroDivisionError

    assert records.of("t") == {"a": {"n": 1}, "b": {"n": 1}}
    assert path.stat().st_size == size


def test_an_inner_batch_that_raises_undoes_its_own_part_only(records, path):
    with records.batch():
        records.put("t", "a", {"n": 1})
        with pytest.raises(ZeroDivisionError), records.batch():  # noqa: PT012
            records.put("t", "a", {"n": 2})
            records.put("t", "b", {"n": 2})
            raise ZeroDivisionError
        records.put("t", "c", {"n": 3})

    assert records.of("t") == {"a": {"n": 1}, "c": {"n": 3}}
    assert on_disk(path) == {"t": {"a": {"n": 1}, "c": {"n": 3}}}


def test_memory_holds_what_a_reload_would_give(records, path):
    records.put("t", "é\n\udcff", {"pair": (1, 2), 3: None, "text": "\u2028\udcfe\0"})

    assert records.of("t") == {"é\n\udcff": {"pair": [1, 2], "3": None, "text": "\u2028\udcfe\0"}}
    assert on_disk(path) == {"t": records.of("t")}


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes", object()])
def test_what_is_not_json_is_refused_and_changes_nothing(records, path, value):
    records.put("t", "a", {"n": 1})
    with pytest.raises((TypeError, ValueError)):
        records.put("t", "a", {"value": value})

    assert records.of("t") == {"a": {"n": 1}}


def test_writing_what_is_there_already_writes_nothing(records, path):
    records.put("t", "a", {"n": 1})
    size = path.stat().st_size
    records.put("t", "a", {"n": 1})

    assert path.stat().st_size == size
    records.put("t", "a", {"n": True})
    assert on_disk(path)["t"]["a"]["n"] is True


def test_dropping_what_is_not_there_is_reported_and_writes_nothing(records, path):
    size = path.stat().st_size

    assert not records.drop("t", "a")
    assert path.stat().st_size == size


def test_a_caller_who_changes_a_document_later_changes_no_record(records):
    document = {"list": [1]}
    records.put("t", "a", document)
    document["list"].append(2)
    records.read()["t"]["a"]["list"].append(3)

    assert records.of("t") == {"a": {"list": [1]}}


def test_a_tinydb_with_its_own_tables_works_on_it_too(path):
    with TinyDB(storage=lambda: TableStorage(Journal(path))) as database:
        database.insert_multiple([{"n": 1}, {"n": 2}])
        database.update({"n": 3}, where("n") == 2)
        database.table("gone").insert({})
        database.drop_table("gone")

    assert on_disk(path) == {"_default": {"1": {"n": 1}, "2": {"n": 3}}}
