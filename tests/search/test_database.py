from __future__ import annotations

import sqlite3

import pytest

from parachuted.errors import StorageFailedError
from tests.search.library import Library


def test_a_file_that_is_no_database_is_set_aside_and_made_anew(shut: Library):
    shut.write("a.md", "beans")
    shut.database.write_bytes(b"no database at all " * 1000)

    shut.start()

    assert shut.find("beans") == ["a.md"]
    assert "search.db.garbled" in shut.problems["search"]
    assert shut.database.with_name("search.db.garbled").exists()


def test_so_is_one_of_another_version(shut: Library):
    shut.write("a.md", "beans")
    database = sqlite3.connect(shut.database)
    database.executescript("CREATE TABLE notes (x); PRAGMA user_version = 99;")
    database.close()

    shut.start()

    assert shut.find("beans") == ["a.md"]
    assert "version 99" in shut.problems["search"]


def test_one_that_is_garbled_in_the_middle_of_work_is_made_anew(library: Library):
    for number in range(200):
        library.save(f"{number}.md", f"beans {number} " * 50)
    library.settled()
    library.search.close()
    data = bytearray(library.database.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    library.database.write_bytes(data)

    library.search = library.make()
    library.start()
    library.save("new.md", "peas")

    assert library.find("peas") == ["new.md"]
    assert len(library.find("beans", limit=100)) == 100
    assert library.said


def test_one_that_is_deleted_while_it_is_open_is_made_anew(library: Library):
    library.save("a.md", "beans")
    library.settled()
    for suffix in ("", "-wal", "-shm"):
        library.database.with_name(f"search.db{suffix}").unlink(missing_ok=True)

    library.search.look()
    library.until(lambda: library.said)

    assert library.find("beans") == ["a.md"]
    assert library.database.exists()


def test_reading_ends_when_its_time_is_up(library: Library):
    library.save("a.md", "beans")
    library.settled()
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    )

    with pytest.raises(StorageFailedError), library.search._database.reading(0.05) as connection:
        connection.execute(endless).fetchone()
    assert library.find("beans") == ["a.md"]
