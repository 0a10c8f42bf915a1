"""Rescue: what a program writes into a file that it had open when that was replaced is not lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from parachuted.errors import StorageFailedError
from parachuted.vault.paths import VaultPath
from parachuted.vault.rescue import rescue

NOTE = VaultPath("note.md")
OLD = "one\n\ntwo\n\nthree\n"
OURS = OLD.replace("three", "THREE")
COPY = "note (Conflicted copy parachute 20261121231502).md"


@contextmanager
def replaced_while_open(rig) -> Iterator[TextIO]:
    rig.put(NOTE, OLD)
    with (rig.vault / NOTE).open("r+") as program:
        rig.store.replace(NOTE, OURS.encode(), rig.agent)
        yield program


def rescued(rig) -> list[str]:
    """Twice, for a system that does not say who writes waits until the text rests."""
    return [said for _ in range(2) for said in rescue(rig.store, rig.now)]


def test_a_late_text_is_merged_into_what_replaced_it_as_the_persons(rig):
    with replaced_while_open(rig) as program:
        assert rig.store.expects_late_writes
        program.write(OLD.replace("one", "ONE"))
    assert rescued(rig) == []
    assert rig.text(NOTE) == OURS.replace("one", "ONE")
    assert [write.author.by for write in rig.history.writes_of(NOTE)] == ["agent:watch", "person"]
    assert rig.names() == [NOTE]


def test_a_late_text_that_clashes_is_kept_as_a_copy_and_that_is_said(rig):
    with replaced_while_open(rig) as program:
        program.write(OLD.replace("three", "drei!"))
    (said,) = rescued(rig)
    assert COPY in said
    assert (rig.text(NOTE), rig.text(COPY)) == (OURS, OLD.replace("three", "drei!"))


def test_a_late_text_of_a_deleted_note_brings_it_back(rig):
    rig.put(NOTE, OLD)
    with (rig.vault / NOTE).open("r+") as program:
        rig.store.delete(NOTE, rig.agent)
        program.write("ONE")
    (said,) = rescued(rig)
    assert NOTE in said
    assert rig.text(NOTE) == OLD.replace("one", "ONE")


def test_a_late_text_follows_a_note_that_was_moved(rig):
    with replaced_while_open(rig) as program:
        rig.store.move(NOTE, VaultPath("sub/moved.md"), rig.agent)
        program.write("ONE")
    assert rescued(rig) == []
    assert rig.text("sub/moved.md") == OURS.replace("one", "ONE")
    assert rig.names() == ["sub/moved.md"]


def test_a_program_that_writes_nothing_more_changes_nothing(rig):
    with replaced_while_open(rig):
        pass
    assert rescued(rig) == []
    assert (rig.text(NOTE), len(rig.history.writes_of(NOTE))) == (OURS, 1)


def test_what_the_disk_refuses_comes_again(rig, monkeypatch):
    with replaced_while_open(rig) as program:
        program.write("ONE")

    def refuse(_: bytes) -> str:
        raise StorageFailedError

    with monkeypatch.context() as patch:
        patch.setattr(rig.objects, "put", refuse)
        assert rescued(rig) == []
    assert rig.text(NOTE) == OURS
    assert rig.store.expects_late_writes
    rescued(rig)
    assert rig.text(NOTE) == OURS.replace("one", "ONE")


def test_each_late_write_of_one_program_is_brought_in(rig):
    with replaced_while_open(rig) as program:
        for number in range(3):
            program.seek(0)
            program.write(f"on{number}")
            program.flush()
            rescued(rig)
            assert rig.text(NOTE) == OURS.replace("one", f"on{number}")
