from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.state import StateStore, Table, open_state


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

    assert table.get_record("a/AGENTS.md ../") == {"updated_at": 1}
    assert len(table) == 2
    assert table.drop("b")
    assert not table.drop("b")
    assert table.get_record("b") is None
    assert reopened(path) == {"a/AGENTS.md ../": {"updated_at": 1}}


def test_what_a_reader_does_to_its_copy_changes_no_record(table):
    before = {"resolved_paths": ["x"], "deep": {"list": [1]}}
    table.put("a", before)
    for record in (table.get_record("a"), *table, *dict(table.items()).values()):
        record["resolved_paths"].append("y")
        record["deep"]["list"].clear()

    assert table.get_record("a") == {"resolved_paths": ["x"], "deep": {"list": [1]}}
