from __future__ import annotations

import os
import sqlite3
from unittest.mock import Mock

import pytest

from parachuted.search import Search
from parachuted.vault import VaultRoot
from tests.search.library import Library


def test_what_is_there_before_is_found_and_what_is_saved_changed_moved_and_deleted_after(
    shut: Library,
):
    shut.write("old.md", "an old word: beans")
    shut.start()
    assert shut.find("beans") == ["old.md"]

    shut.save("new.md", "beans too")
    assert set(shut.find("beans")) == {"old.md", "new.md"}

    shut.save("new.md", "peas")
    assert shut.find("beans") == ["old.md"]
    assert shut.find("peas") == ["new.md"]

    (shut.vault / "new.md").rename(shut.vault / "moved.md")
    shut.index.set("moved.md", shut.index.get("new.md"))
    shut.index.set("new.md", None)
    shut.search.follow("new.md", None)
    shut.search.follow("moved.md", shut.index.get("moved.md"))
    assert shut.find("peas") == ["moved.md"]

    shut.delete("moved.md")
    assert shut.find("peas") == []


def test_what_happened_while_nobody_followed_is_made_good_at_the_next_start(library: Library):
    for name in ("same.md", "changed.md", "gone.md"):
        library.save(name, "beans")
    library.settled()
    library.search.close()

    library.write("changed.md", "peas")
    (library.vault / "gone.md").unlink()
    library.index.set("gone.md", None)
    library.write("come.md", "beans")
    library.search = library.make()
    library.start()

    assert set(library.find("beans")) == {"same.md", "come.md"}
    assert library.find("peas") == ["changed.md"]


def test_a_start_reads_only_what_differs(library: Library, monkeypatch):
    library.save("a.md", "beans")
    library.settled()
    read: list[str] = []
    monkeypatch.setattr(
        "parachuted.search.reader.make_indexed_note", lambda path, *_rest: read.append(path)
    )

    library.restart()

    assert (library.find("beans"), read) == (["a.md"], [])


def test_the_content_that_was_just_read_is_not_read_again(library: Library):
    library.write("a.md", "beans")
    entry = library.index.get("a.md")
    (library.vault / "a.md").unlink()

    library.search.follow("a.md", entry, b"beans")

    assert library.find("beans") == ["a.md"]


def test_many_notes_are_all_found_the_freshest_with_the_greatest_ids(shut: Library):
    for number in range(700):
        shut.write(f"f{number % 7}/{number}.md", f"beans {number}")
        os.utime(shut.vault / f"f{number % 7}/{number}.md", (number + 1, number + 1))
        shut.index.set(
            f"f{number % 7}/{number}.md",
            shut.index.get(f"f{number % 7}/{number}.md")._replace(mtime_ns=number),
        )
    shut.start()

    with sqlite3.connect(shut.database) as database:
        ids = [
            int(path.split(b"/")[1][:-3])
            for (path,) in database.execute("SELECT path FROM notes ORDER BY id")
        ]
    database.close()
    assert ids == sorted(ids)
    assert len(ids) == 700
    assert shut.search.count() == 700


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_note_that_cannot_be_read_is_found_by_its_name_and_said_why(library: Library):
    library.write("secret plan.md", "beans")
    (library.vault / "secret plan.md").chmod(0)
    library.search.follow("secret plan.md", library.index.get("secret plan.md"))

    assert library.find("secret plan") == ["secret plan.md"]
    assert "cannot be read" in library.search.unindexed()[0].reason


def test_a_vault_that_is_not_there_is_no_vault_without_notes(library: Library):
    library.save("a.md", "beans")
    library.settled()
    away = library.vault.rename(library.vault.with_name("away"))

    library.search.follow("a.md", library.index.get("a.md")._replace(digest="0" * 64))
    library.until(lambda: "search.writing" in library.problems)

    assert "the vault cannot be read" in library.problems["search.writing"]
    assert library.search.count() == 1
    away.rename(library.vault)


def test_names_that_are_not_utf8_are_notes_too(library: Library):
    library.save(os.fsdecode(b"caf\xe9.md"), "beans")

    assert library.find("beans") == [os.fsdecode(b"caf\xe9.md")]


def test_an_error_in_the_program_is_told_and_does_not_end_the_thread(
    library: Library, monkeypatch, caplog
):
    library.save("a.md", "# A\n")
    library.settled()
    monkeypatch.setattr("parachuted.search.indexer._PAUSE_S", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(
            "parachuted.search.index_tables.IndexTables.put",
            Mock(side_effect=ValueError("a fault")),
        )
        library.save("b.md", "# Bee\n")
        library.until(lambda: "ValueError" in library.problems.get("search.writing", ""))

    assert library.find("bee") == ["b.md"]
    assert library.problems == {}
    assert "the search index was not brought up to date" in caplog.text


def test_a_note_that_the_program_cannot_prepare_is_found_by_its_name_and_keeps_no_other_from_the_index(  # noqa: E501
    library: Library, monkeypatch
):
    monkeypatch.setattr(
        "parachuted.search.indexed_note.links_in", Mock(side_effect=ValueError("a fault"))
    )
    library.save("odd one.md", "[[beans]]")
    library.save("b.md", "beans")

    assert library.find("beans") == ["b.md"]
    assert library.find("odd") == ["odd one.md"]
    assert "error in parachuted" in library.search.unindexed()[0].reason


def test_while_a_change_is_told_the_first_indexing_waits_but_not_for_ever(library: Library):
    for number in range(5):
        library.write(f"{number}.md", "beans")
    library.search.close()
    times_asked = 0

    def is_noticing() -> bool:
        nonlocal times_asked
        times_asked += 1
        return True

    library.search = Search(
        library.database, VaultRoot(library.vault), library.index, Mock(), is_noticing=is_noticing
    )
    library.start()

    assert len(library.find("beans")) == 5
    assert times_asked > 6, "it went on at once, though a change was still being told"
