from __future__ import annotations

import sqlite3

import pytest

from parachuted.search.database import Database
from parachuted.search.index_tables import IndexTables, key_of, link_name, text_of
from parachuted.search.indexed_note import make_card


@pytest.fixture
def shelf(tmp_path):
    database = Database(tmp_path / "search.db")
    yield IndexTables(database.writer())
    database.close()


def rows(shelf: IndexTables) -> list[int]:
    tables = ("notes", "texts", "tags", "fields", "links", "others")
    return [
        shelf._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
        for table in tables
    ]


def test_what_is_put_in_comes_out_without_a_rest(shelf: IndexTables):
    card = make_card("a.md", "---\ntags: [x]\n---\n[[b]] 東京".encode(), 1.0)
    shelf.all_at_once(lambda: shelf.put([(7, card)]))
    shelf.all_at_once(lambda: shelf.put_others(["p.png"]))

    assert rows(shelf) == [1, 1, 1, 1, 1, 1]
    assert (shelf.known(), shelf.last_id(), shelf.digest("a.md")) == (
        {"a.md": (card.digest, 1.0)},
        7,
        card.digest,
    )
    assert shelf._connection.execute("SELECT body FROM texts").fetchone() == (card.texts[2],)

    shelf.all_at_once(lambda: shelf.drop(["a.md", "p.png", "none.md"]))
    assert rows(shelf) == [0, 0, 0, 0, 0, 0]


def test_a_transaction_that_fails_leaves_nothing(shelf: IndexTables):
    card = make_card("a.md", b"text", 1.0)

    with pytest.raises(sqlite3.IntegrityError):
        shelf.all_at_once(lambda: shelf.put([(1, card), (2, card)]))
    assert rows(shelf) == [0, 0, 0, 0, 0, 0]


def test_names_that_are_not_utf8_are_kept_as_they_are():
    assert text_of(key_of("\udcff.md")) == "\udcff.md"
    assert link_name("Folder/Näme.md") == link_name("n\u0061\u0308me")
