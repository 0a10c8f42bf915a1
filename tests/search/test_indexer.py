from __future__ import annotations

import os
import sqlite3
from unittest.mock import Mock

from parachuted.search import IndexUpdate, Search
from parachuted.vault import VaultRoot
from tests.index_entries import changed
from tests.search.search_rig import SearchRig


def test_what_is_there_saved_changed_moved_and_deleted_is_found_as_it_is(
    shut: SearchRig,
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
    shut.search.indexer.follow([("new.md", IndexUpdate(None))])
    shut.search.indexer.follow([("moved.md", IndexUpdate(shut.index.get("moved.md")))])
    assert shut.find("peas") == ["moved.md"]

    shut.delete("moved.md")
    assert shut.find("peas") == []


def test_what_happened_unfollowed_is_made_good_at_the_next_start(rig: SearchRig):
    for name in ("same.md", "changed.md", "gone.md"):
        rig.save(name, "beans")
    rig.settled()
    rig.search.close()

    rig.write("changed.md", "peas")
    (rig.vault / "gone.md").unlink()
    rig.index.set("gone.md", None)
    rig.write("come.md", "beans")
    rig.search = rig.make()
    rig.start()

    assert set(rig.find("beans")) == {"same.md", "come.md"}
    assert rig.find("peas") == ["changed.md"]


def test_a_start_reads_only_what_differs(rig: SearchRig, monkeypatch):
    rig.save("a.md", "beans")
    rig.settled()
    read: list[str] = []
    monkeypatch.setattr(
        "parachuted.search.indexer.make_indexed_note", lambda path, *_rest: read.append(path)
    )

    rig.restart()

    assert (rig.find("beans"), read) == (["a.md"], [])


def test_the_content_that_was_just_read_is_not_read_again(rig: SearchRig):
    rig.write("a.md", "beans")
    entry = rig.index.get("a.md")
    (rig.vault / "a.md").unlink()

    rig.search.indexer.follow([("a.md", IndexUpdate(entry, b"beans"))])

    assert rig.find("beans") == ["a.md"]


def test_many_notes_are_all_found_the_freshest_with_the_greatest_ids(shut: SearchRig):
    for number in range(700):
        shut.write(f"f{number % 7}/{number}.md", f"beans {number}")
        os.utime(shut.vault / f"f{number % 7}/{number}.md", (number + 1, number + 1))
        shut.index.set(
            f"f{number % 7}/{number}.md",
            changed(shut.index.get(f"f{number % 7}/{number}.md"), mtime_ns=number),
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


def test_a_vault_that_is_not_there_is_no_vault_without_notes(rig: SearchRig):
    rig.save("a.md", "beans")
    rig.settled()
    away = rig.vault.rename(rig.vault.with_name("away"))

    rig.search.indexer.follow(
        [("a.md", IndexUpdate(changed(rig.index.get("a.md"), digest="0" * 64)))]
    )
    rig.until(lambda: "search.writing" in rig.problems)

    assert "the vault cannot be read" in rig.problems["search.writing"]
    assert rig.search.count() == 1
    away.rename(rig.vault)


def test_names_that_are_not_utf8_are_notes_too(rig: SearchRig):
    rig.save(os.fsdecode(b"caf\xe9.md"), "beans")

    assert rig.find("beans") == [os.fsdecode(b"caf\xe9.md")]


def test_an_error_in_the_program_is_reported_and_does_not_end_the_thread(
    rig: SearchRig, monkeypatch, caplog
):
    rig.save("a.md", "# A\n")
    rig.settled()
    monkeypatch.setattr("parachuted.search.indexer._PAUSE_S", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(
            "parachuted.search.index_tables.IndexTables.put",
            Mock(side_effect=ValueError("a fault")),
        )
        rig.save("b.md", "# Bee\n")
        rig.until(lambda: "ValueError" in rig.problems.get("search.writing", ""))

    assert rig.find("bee") == ["b.md"]
    assert rig.problems == {}
    assert "the search index was not brought up to date" in caplog.text


def test_a_note_that_cannot_be_prepared_is_found_by_its_name(rig: SearchRig, monkeypatch):
    monkeypatch.setattr(
        "parachuted.search.indexed_note.links_in", Mock(side_effect=ValueError("a fault"))
    )
    rig.save("odd one.md", "[[beans]]")
    rig.save("b.md", "beans")

    assert rig.find("beans") == ["b.md"]
    assert rig.find("odd") == ["odd one.md"]
    assert "error in parachuted" in rig.search.unindexed()[0].reason


def test_the_first_indexing_waits_for_a_change_but_not_for_ever(rig: SearchRig, monkeypatch):
    monkeypatch.setattr("parachuted.search.indexer._LONGEST_WAIT_S", 0.1)
    for number in range(5):
        rig.write(f"{number}.md", "beans")
    rig.search.close()
    times_asked = 0

    def is_noticing() -> bool:
        nonlocal times_asked
        times_asked += 1
        return True

    rig.search = Search(
        rig.database, VaultRoot(rig.vault), rig.index, Mock(), is_noticing=is_noticing
    )
    rig.start()

    assert len(rig.find("beans")) == 5
    assert times_asked > 6, "it went on at once, though a change was still being told"
