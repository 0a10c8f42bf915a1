from __future__ import annotations

import pytest

from parachuted.search.index_tables import IndexTables, key_of, link_name, make_database, text_of
from parachuted.search.indexed_note import make_indexed_note


@pytest.fixture
def tables(tmp_path):
    database = make_database(tmp_path / "search.db")
    with database.writer() as connection:
        yield IndexTables(connection)
    database.close()


def rows(tables: IndexTables) -> list[int]:
    names = ("notes", "texts", "tags", "fields", "links", "others")
    return [
        tables._connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608
        for name in names
    ]


def test_what_is_put_in_comes_out_without_a_rest(tables: IndexTables):
    indexed_note = make_indexed_note("a.md", "---\ntags: [x]\n---\n[[b]] 東京".encode(), 1.0)
    tables.put([(7, indexed_note)])
    tables.put_others(["p.png"])

    assert rows(tables) == [1, 1, 1, 1, 1, 1]
    assert (tables.known(), tables.last_id(), tables.digest("a.md")) == (
        {"a.md": (indexed_note.digest, 1.0)},
        7,
        indexed_note.digest,
    )
    assert tables._connection.execute("SELECT body FROM texts").fetchone() == (
        indexed_note.texts[2],
    )
    assert tables._connection.execute("SELECT body FROM texts").fetchone() == (
        indexed_note.texts[2],
    )

    tables.drop(["a.md", "p.png", "none.md"])
    assert rows(tables) == [0, 0, 0, 0, 0, 0]


def test_names_that_are_not_utf8_are_kept_as_they_are():
    assert text_of(key_of("\udcff.md")) == "\udcff.md"
    assert link_name("Folder/Näme.md") == link_name("n\u0061\u0308me")
