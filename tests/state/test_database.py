"""Database: what every SQLite file of the daemon has in common, and that those of earlier versions
still open.
"""

from __future__ import annotations

import contextlib
import gzip
import sqlite3
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.agents.gateway.usage import MoneyLimits, UsageStore
from parachuted.errors import StorageFailedError
from parachuted.search.index_tables import make_database
from parachuted.state import Database
from parachuted.vault.objects import TextStore
from parachuted.vault.write_journal import WriteJournal

OLDER = Path(__file__).with_name("older_files")
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
FIRST = "CREATE TABLE IF NOT EXISTS notes (name TEXT NOT NULL UNIQUE);"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "private" / "things.db"


@pytest.fixture
def open_file(path):
    """Open the file, with whatever differs from the plainest one."""
    with contextlib.ExitStack() as stack:

        def make(**more: object) -> Database:
            values = {
                "label": "the list of things",
                "loss": "its things are gone",
                "migrations": {1: FIRST},
            } | more
            database = Database(path, **values)
            stack.callback(database.close)
            return database

        yield make


@pytest.fixture
def database(open_file):
    return open_file()


def add(database: Database, *names: str, **more: object) -> None:
    with database.write(**more) as connection:
        connection.executemany("INSERT INTO notes VALUES (?)", [(name,) for name in names])


def names(database: Database) -> list[str]:
    return [name for (name,) in database.rows("SELECT name FROM notes ORDER BY name")]


def older(folder: Path, name: str) -> Path:
    """A file that was made before schemas had versions, or by version 3 of the search index."""
    path = folder / name
    path.write_bytes(gzip.decompress((OLDER / f"{name}.gz").read_bytes()))
    return path


def fill(database: Database) -> None:
    """With more than is checked each time."""
    add(database, *(f"{number} {'x' * 4000}" for number in range(400)))


def spoil(path: Path, start: int = 65536) -> bytes:
    data = path.read_bytes()
    path.write_bytes(data[:start] + b"\xff" * (len(data) - start))
    return path.read_bytes()


def test_a_history_of_an_earlier_version_opens_with_all_it_holds(tmp_path):
    history = WriteJournal(older(tmp_path, "history.db"))

    (write,) = history.writes_of("note.md")
    assert (write.state, write.author.run, write.author.causes) == ("done", "r-1", ("c-1",))
    assert history.run("r-1") == {"id": "r-1", "outcome": "done"}
    assert [sighting.kind for sighting in history.sightings_of("note.md")] == ["modified"]
    assert (history.problem, history.status().version) == (None, 3)
    history.close()


def test_so_do_costs_and_texts_seen_and_an_index_is_built_again(tmp_path):
    limits = MoneyLimits(usd_per_cause=1, usd_per_hour=1, usd_per_day=1)
    usage = UsageStore(older(tmp_path, "usage.db"), NOW.timestamp, limits)
    assert (usage.last(), usage.database.problem) == ((0.25, 0.25), None)
    (cause,) = usage.report(NOW, 7).causes
    assert (cause.name, cause.usd) == ("c-1", 0.25)
    usage.database.close()

    texts = TextStore(older(tmp_path, "seen.db"))
    assert texts.get("d" * 64) == b"text that was seen\n"
    assert texts.has_place(b"note.md", "d" * 64)
    texts.close()

    database = make_database(older(tmp_path, "search.db"))
    assert database.rows("SELECT body FROM texts") == []
    assert database.problem is None
    database.close()


def test_each_migration_runs_once_in_order_and_the_version_is_kept(open_file):
    add(open_file(), "one")
    second = "ALTER TABLE notes ADD COLUMN size INTEGER NOT NULL DEFAULT 7;"
    for _ in range(2):
        later = open_file(migrations={1: FIRST, 2: second})
        assert later.rows("SELECT name, size FROM notes") == [("one", 7)]
        assert later.rows("PRAGMA user_version") == [(2,)]
        later.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(open_file):
    add(open_file(), "one")
    broken = "CREATE TABLE more (x); INSERT INTO none VALUES (1);"
    with pytest.raises(StorageFailedError, match="the list of things could not be read"):
        open_file(migrations={1: FIRST, 2: broken}).rows("SELECT 1")

    after = open_file()
    assert (names(after), after.rows("PRAGMA user_version")) == (["one"], [(1,)])
    assert after.rows("SELECT name FROM sqlite_master WHERE name = 'more'") == []


def test_a_file_of_a_newer_program_is_refused_and_kept(open_file, path):
    newer = open_file(migrations={9: FIRST})
    add(newer, "one")
    newer.close()
    with pytest.raises(StorageFailedError, match=r"newer parachuted: things\.db has version 9"):
        names(open_file())

    assert names(open_file(migrations={9: FIRST})) == ["one"]
    assert [one.name for one in path.parent.iterdir() if "garbled" in one.name] == []


@pytest.mark.parametrize("version", [1, 9])
def test_a_derived_file_of_another_version_is_replaced_without_a_problem(open_file, path, version):
    other = open_file(migrations={version: FIRST})
    add(other, "one")
    other.close()
    database = open_file(migrations={2: "CREATE TABLE notes (name TEXT);"}, is_derived=True)

    assert names(database) == []
    assert database.problem is None
    assert not list(path.parent.glob("*.garbled*"))


def test_a_derived_file_of_no_version_with_other_tables_is_set_aside(open_file, path):
    other = open_file(migrations={1: "CREATE TABLE notes (x);"})
    other.rows("PRAGMA user_version = 0")
    other.close()
    database = open_file(migrations={2: "CREATE TABLE notes (name TEXT);"}, is_derived=True)

    assert names(database) == []
    assert path.with_name("things.db.garbled").exists()
    assert "set aside as things.db.garbled; its things are gone" in database.problem


def test_a_damaged_file_is_set_aside_with_its_bytes(open_file, path):
    database = open_file()
    add(database, "one")
    database.close()
    data = spoil(path, 0)
    database = open_file()

    assert names(database) == []
    (aside,) = path.parent.glob("things.db.garbled-*")
    assert (aside.read_bytes(), aside.name in database.problem) == (data, True)
    assert database.status().problem == database.problem


def test_damage_that_is_met_in_use_is_found_by_the_next_opening(open_file, path, database):
    fill(database)
    database.close()
    spoil(path)
    used, calls = open_file(), []
    used.on_damage = lambda: calls.append(1)
    with pytest.raises(StorageFailedError):
        names(used)
    assert (used.is_damaged, calls) == (True, [1])
    used.close()

    again = open_file()
    assert (names(again), "set aside" in again.problem) == ([], True)
    again.close()
    assert open_file().problem is None


def test_a_transaction_that_fails_leaves_nothing_and_the_next_one_works(database):
    for is_durable in (True, False):
        with pytest.raises(StorageFailedError):
            add(database, "one", "one", is_durable=is_durable)
        assert names(database) == []
    add(database, "one", is_durable=False)
    add(database, "two")
    assert names(database) == ["one", "two"]
    assert database.rows("PRAGMA synchronous") == [(2,)]


def test_a_reader_cannot_write_and_sees_one_moment(database):
    add(database, "one")
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (1,)
        add(database, "two")
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (1,)
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (2,)
    with pytest.raises(StorageFailedError, match="readonly"), database.reading() as connection:
        connection.execute("DELETE FROM notes")


def test_a_reader_waits_for_no_writer_and_no_writer_for_a_reader(database):
    add(database, "one")
    with database.reading() as connection, database.write() as writer:
        writer.execute("INSERT INTO notes VALUES ('two')")
        answers: list[object] = []
        thread = threading.Thread(
            target=lambda: answers.append(connection.execute("SELECT name FROM notes").fetchall())
        )
        thread.start()
        thread.join()
    assert answers == [[("one",)]]


def test_reading_ends_when_its_time_is_up(database):
    add(database, "one")
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    )
    with pytest.raises(StorageFailedError), database.reading(0.05) as connection:
        connection.execute(endless)
    with database.reading(5) as connection:
        assert connection.execute("SELECT name FROM notes").fetchone() == ("one",)


def test_a_reader_that_finds_damage_lets_go_of_the_file(database, path, monkeypatch):
    add(database, "one")
    with database.writer() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.write(b"garbled" * 2_000)
    readers = []
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda *args, **more: readers.append(connect(*args, **more)) or readers[-1],
    )

    with pytest.raises(StorageFailedError, match="not a database"), database.reading():
        pass

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        readers[0].execute("SELECT 1")


def test_a_file_is_not_read_until_it_is_made_nor_once_it_is_closed(database):
    with pytest.raises(StorageFailedError, match="not ready yet"), database.reading():
        pass
    assert database.status().version is None
    names(database)
    database.close()
    with pytest.raises(StorageFailedError, match="closed"):
        names(database)
    with pytest.raises(StorageFailedError), database.reading():
        pass


def test_a_file_that_is_set_aside_while_it_is_read_is_made_again(open_file):
    database = open_file(is_derived=True)
    add(database, "one")
    with database.reading() as connection:
        database.set_aside("damaged")
        assert names(database) == []
        assert connection.execute("SELECT name FROM notes").fetchone() == ("one",)
    with database.reading() as connection:
        assert connection.execute("SELECT name FROM notes").fetchone() is None


def test_no_other_user_may_read_it_and_its_state_has_its_version_and_size(database, path):
    add(database, "one")
    assert [file.stat().st_mode & 0o077 for file in (path, path.parent)] == [0, 0]
    status = database.status()
    assert (status.file, status.version, status.problem) == ("things.db", 1, None)
    assert status.size == path.stat().st_size + path.with_name("things.db-wal").stat().st_size


def test_a_place_that_cannot_hold_a_file_is_an_error_with_its_name(tmp_path):
    (tmp_path / "file").write_text("")
    database = Database(tmp_path / "file" / "x.db", label="x", loss="", migrations={1: FIRST})
    with pytest.raises(StorageFailedError, match="x could not be read or written"):
        names(database)


def test_a_file_that_another_program_changes_is_not_damage(database, path):
    add(database, "one")
    other = sqlite3.connect(path)
    other.execute("INSERT INTO notes VALUES ('two')")
    other.commit()
    other.close()
    assert (names(database), database.is_damaged) == (["one", "two"], False)
