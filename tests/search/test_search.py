from __future__ import annotations

import threading

from parachuted.search import Search
from parachuted.search.search import files_of
from parachuted.vault import IndexEntry, VaultIndex, VaultRoot
from tests.search.search_rig import SearchRig


def test_notes_that_are_not_found_by_all_of_their_text_are_listed(rig: SearchRig):
    rig.save("fine.md", "beans")
    rig.save("binary.md", b"\0\1\2 beans")

    assert rig.find("beans") == ["fine.md"]
    assert rig.find("binary") == ["binary.md"]
    ((path, reason),) = [(one.path, one.reason) for one in rig.search.unindexed()]
    assert path == "binary.md"
    assert "NUL" in reason

    rig.save("binary.md", "beans at last")
    assert set(rig.find("beans")) == {"fine.md", "binary.md"}
    assert list(rig.search.unindexed()) == []


def test_it_can_be_closed_before_it_was_started(vault, tmp_path):
    Search(tmp_path / "search.db", VaultRoot(vault), VaultIndex(), lambda *_said: None).close()

    assert not (tmp_path / "search.db").exists()


def test_closing_in_the_middle_of_indexing_loses_nothing(shut: SearchRig):
    for number in range(800):
        shut.write(f"{number}.md", "beans " * 200)
    shut.search.indexer.start()
    shut.restart()

    assert shut.search.count() == 800


def test_the_index_of_the_vault_may_change_while_it_is_read():
    index, stop = VaultIndex(), threading.Event()
    for number in range(300):
        index.set(f"a{number}/x.md", IndexEntry(0, 0, 0, 0, "d"))

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            index.set(f"b{number % 500}/x.md", IndexEntry(0, 0, 0, 0, "d"))
            index.drop_folder(f"b{(number * 7) % 500}")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(20):
            assert len(files_of(index)) >= 300
    finally:
        stop.set()
        thread.join()


def test_an_index_of_the_vault_that_cannot_be_read_is_not_an_empty_vault(
    rig: SearchRig, monkeypatch
):
    rig.save("a.md", "beans")
    rig.settled()
    monkeypatch.setattr("parachuted.search.search._TRIES", 2)

    def restless() -> list[str]:
        raise RuntimeError("Set changed size during iteration")

    monkeypatch.setattr(rig.index, "all_folders", restless)
    rig.search.close()
    rig.search = rig.make()
    rig.search.indexer.start()
    rig.until(lambda: "search.writing" in rig.problems)

    assert rig.search.count() == 1
