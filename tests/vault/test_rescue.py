"""Rescue: what a program writes into a file that it had open when that was replaced is not lost."""

from __future__ import annotations

from parachuted.errors import StorageFailedError
from parachuted.vault.paths import VaultPath
from parachuted.vault.rescue import rescue

NOTE = VaultPath("note.md")
OLD = "one\n\ntwo\n\nthree\n"
OURS = OLD.replace("three", "THREE")
COPY = "note (Conflicted copy parachute 20261121231502).md"


def rescued(shelf) -> list[str]:
    """Twice, for a system that does not say who writes waits until the text rests."""
    return [said for _ in range(2) for said in rescue(shelf.store, shelf.now)]


def test_a_late_text_is_merged_into_what_replaced_it_as_the_persons(shelf):
    shelf.put(NOTE, OLD)
    with (shelf.vault / NOTE).open("w") as program:
        program.write(OLD)
        program.flush()
        shelf.store.replace(NOTE, OURS.encode(), shelf.agent)
        assert shelf.store.expects_late_writes
        program.seek(0)
        program.write(OLD.replace("one", "ONE"))
    assert rescued(shelf) == []
    assert shelf.text(NOTE) == OURS.replace("one", "ONE")
    assert [write.author.by for write in shelf.history.writes_of(NOTE)] == ["agent:watch", "person"]
    assert shelf.names() == [NOTE]


def test_a_late_text_that_clashes_is_kept_as_a_copy_and_that_is_said(shelf):
    shelf.put(NOTE, OLD)
    with (shelf.vault / NOTE).open("r+") as program:
        shelf.store.replace(NOTE, OURS.encode(), shelf.agent)
        program.write(OLD.replace("three", "drei!"))
    (said,) = rescued(shelf)
    assert COPY in said
    assert (shelf.text(NOTE), shelf.text(COPY)) == (OURS, OLD.replace("three", "drei!"))


def test_a_late_text_of_a_deleted_note_brings_it_back(shelf):
    shelf.put(NOTE, OLD)
    with (shelf.vault / NOTE).open("r+") as program:
        shelf.store.delete(NOTE, shelf.agent)
        program.write("ONE")
    (said,) = rescued(shelf)
    assert NOTE in said
    assert shelf.text(NOTE) == OLD.replace("one", "ONE")


def test_a_late_text_follows_a_note_that_was_moved(shelf):
    shelf.put(NOTE, OLD)
    with (shelf.vault / NOTE).open("r+") as program:
        shelf.store.replace(NOTE, OURS.encode(), shelf.agent)
        shelf.store.move(NOTE, VaultPath("sub/moved.md"), shelf.agent)
        program.write("ONE")
    assert rescued(shelf) == []
    assert shelf.text("sub/moved.md") == OURS.replace("one", "ONE")
    assert shelf.names() == ["sub/moved.md"]


def test_a_program_that_writes_nothing_more_changes_nothing(shelf):
    shelf.put(NOTE, OLD)
    with (shelf.vault / NOTE).open("r+"):
        shelf.store.replace(NOTE, OURS.encode(), shelf.agent)
    assert rescued(shelf) == []
    assert (shelf.text(NOTE), len(shelf.history.writes_of(NOTE))) == (OURS, 1)


def test_what_the_disk_refuses_comes_again(shelf, monkeypatch):
    shelf.put(NOTE, OLD)
    with (shelf.vault / NOTE).open("r+") as program:
        shelf.store.replace(NOTE, OURS.encode(), shelf.agent)
        program.write("ONE")

    def refuse(_: bytes) -> str:
        raise StorageFailedError

    with monkeypatch.context() as patch:
        patch.setattr(shelf.objects, "put", refuse)
        assert rescued(shelf) == []
    assert shelf.text(NOTE) == OURS
    assert shelf.store.expects_late_writes
    rescued(shelf)
    assert shelf.text(NOTE) == OURS.replace("one", "ONE")


def test_each_late_write_of_one_program_is_brought_in(shelf):
    shelf.put(NOTE, OLD)
    with (shelf.vault / NOTE).open("r+") as program:
        shelf.store.replace(NOTE, OURS.encode(), shelf.agent)
        for number in range(3):
            program.seek(0)
            program.write(f"on{number}")
            program.flush()
            rescued(shelf)
            assert shelf.text(NOTE) == OURS.replace("one", f"on{number}")
