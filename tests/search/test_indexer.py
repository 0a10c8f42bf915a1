from __future__ import annotations

import os
import sqlite3
from unittest.mock import Mock

import pytest

from parachuted.search import IndexUpdate, Search
from parachuted.vault import VaultRoot
from tests.index_entries import changed
from tests.search.search_rig import SearchRig


def test_what_is_there_before_is_found_and_what_is_saved_changed_moved_and_deleted_after(
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


def test_what_happened_while_no_one_followed_is_made_good_at_the_next_start(search_rig: SearchRig):
    for name in ("same.md", "changed.md", "gone.md"):
        search_rig.save(name, "beans")
    search_rig.settled()
    search_rig.search.close()

    search_rig.write("changed.md", "peas")
    (search_rig.vault / "gone.md").unlink()
    search_rig.index.set("gone.md", None)
    search_rig.write("come.md", "beans")
    search_rig.search = search_rig.make()
    search_rig.start()

    assert set(search_rig.find("beans")) == {"same.md", "come.md"}
    assert search_rig.find("peas") == ["changed.md"]


def test_a_start_reads_only_what_differs(search_rig: SearchRig, monkeypatch):
    search_rig.save("a.md", "beans")
    search_rig.settled()
    read: list[str] = []
    monkeypatch.setattr(
        "parachuted.search.indexer.make_indexed_note", lambda path, *_rest: read.append(path)
    )

    search_rig.restart()

    assert (search_rig.find("beans"), read) == (["a.md"], [])


def test_the_content_that_was_just_read_is_not_read_again(search_rig: SearchRig):
    search_rig.write("a.md", "beans")
    entry = search_rig.index.get("a.md")
    (search_rig.vault / "a.md").unlink()

    search_rig.search.indexer.follow([("a.md", IndexUpdate(entry, b"beans"))])

    assert search_rig.find("beans") == ["a.md"]


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_note_that_cannot_be_read_is_found_by_its_name_and_said_why(search_rig: SearchRig):
    search_rig.write("secret plan.md", "beans")
    (search_rig.vault / "secret plan.md").chmod(0)
    search_rig.search.indexer.follow(
        [("secret plan.md", IndexUpdate(search_rig.index.get("secret plan.md")))]
    )

    assert search_rig.find("secret plan") == ["secret plan.md"]
    assert "cannot be read" in search_rig.search.unindexed()[0].reason


def test_a_vault_that_is_not_there_is_no_vault_without_notes(search_rig: SearchRig):
    search_rig.save("a.md", "beans")
    search_rig.settled()
    away = search_rig.vault.rename(search_rig.vault.with_name("away"))

    search_rig.search.indexer.follow(
        [("a.md", IndexUpdate(changed(search_rig.index.get("a.md"), digest="0" * 64)))]
    )
    search_rig.until(lambda: "search.writing" in search_rig.problems)

    assert "the vault cannot be read" in search_rig.problems["search.writing"]
    assert search_rig.search.count() == 1
    away.rename(search_rig.vault)


def test_names_that_are_not_utf8_are_notes_too(search_rig: SearchRig):
    search_rig.save(os.fsdecode(b"caf\xe9.md"), "beans")

    assert search_rig.find("beans") == [os.fsdecode(b"caf\xe9.md")]


def test_an_error_in_the_program_is_reported_and_does_not_end_the_thread(
    search_rig: SearchRig, monkeypatch, caplog
):
    search_rig.save("a.md", "# A\n")
    search_rig.settled()
    monkeypatch.setattr("parachuted.search.indexer._PAUSE_S", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(
            "parachuted.search.index_tables.IndexTables.put",
            Mock(side_effect=ValueError("a fault")),
        )
        search_rig.save("b.md", "# Bee\n")
        search_rig.until(lambda: "ValueError" in search_rig.problems.get("search.writing", ""))

    assert search_rig.find("bee") == ["b.md"]
    assert search_rig.problems == {}
    assert "the search index was not brought up to date" in caplog.text


def test_a_note_that_the_program_cannot_prepare_is_found_by_its_name_and_keeps_no_other_from_the_index(  # noqa: E501
    search_rig: SearchRig, monkeypatch
):
    monkeypatch.setattr(
        "parachuted.search.indexed_note.links_in", Mock(side_effect=ValueError("a fault"))
    )
    search_rig.save("odd one.md", "[[beans]]")
    search_rig.save("b.md", "beans")

    assert search_rig.find("beans") == ["b.md"]
    assert search_rig.find("odd") == ["odd one.md"]
    assert "error in parachuted" in search_rig.search.unindexed()[0].reason


def test_while_a_change_is_reported_the_first_indexing_waits_but_not_for_ever(
    search_rig: SearchRig,
):
    for number in range(5):
        search_rig.write(f"{number}.md", "beans")
    search_rig.search.close()
    times_asked = 0

    def is_noticing() -> bool:
        nonlocal times_asked
        times_asked += 1
        return True

    search_rig.search = Search(
        search_rig.database,
        VaultRoot(search_rig.vault),
        search_rig.index,
        Mock(),
        is_noticing=is_noticing,
    )
    search_rig.start()

    assert len(search_rig.find("beans")) == 5
    assert times_asked > 6, "it went on at once, though a change was still being told"
