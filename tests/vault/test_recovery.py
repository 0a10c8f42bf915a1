"""Recovery: for each moment at which a write can be cut short, what is on the disk afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from parachuted.vault.write_records import Write

NOTE, TEMPORARY = "note.md", ".parachute-0123456789abcdef.tmp"
OLD, NEW, PERSONS, NEWER = "old text\n", "new text\n", "a person's\n", "newer still\n"
COPY = "note (Conflicted copy parachute 20261121231502).md"


@dataclass(frozen=True)
class CrashState:
    """What was found under the temporary name and under the note's, and what is to be there
    afterwards.
    """

    story: str
    temporary: str | None
    note: str | None
    becomes: str | None
    state: str


def intended(rig, before: str | None = OLD, after: str | None = NEW) -> Write:
    digests = [None if text is None else rig.objects.put(text.encode()) for text in (before, after)]
    return rig.intend(NOTE, before=digests[0], after=digests[1], temporary=TEMPORARY)


def found(rig, temporary: str | None, note: str | None) -> None:
    for name, text in ((TEMPORARY, temporary), (NOTE, note)):
        if text is not None:
            (rig.vault / name).write_text(text)


def assert_ended(rig, moment: CrashState) -> None:
    assert rig.recovery.run() == []
    assert rig.names() == ([] if moment.becomes is None else [NOTE])
    assert moment.becomes is None or rig.text(NOTE) == moment.becomes
    assert rig.history.intended() == []
    assert [write.state for write in rig.history.writes_of(NOTE)] == (
        [] if moment.state == "void" else ["done"]
    )


def moments(*rows: CrashState) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("moment", rows, ids=[row.story for row in rows])


@moments(
    CrashState("before anything was written", None, OLD, OLD, "void"),
    CrashState("while the new text was being written", NEW[:4], OLD, OLD, "void"),
    CrashState("before the first byte of the new text", "", OLD, OLD, "void"),
    CrashState("before the exchange", NEW, OLD, OLD, "void"),
    CrashState("after the exchange", OLD, NEW, NEW, "done"),
    CrashState("after the old text was removed", None, NEW, NEW, "done"),
    CrashState("before the exchange, and a person saved since", NEW, PERSONS, PERSONS, "void"),
    CrashState("after the exchange, and a person saved since", OLD, PERSONS, PERSONS, "void"),
    CrashState("after an exchange that took out a person's text", PERSONS, NEW, PERSONS, "void"),
    CrashState("after that, and the note was removed since", PERSONS, None, PERSONS, "void"),
)
def test_a_replacement_cut_short(rig, moment):
    intended(rig)
    found(rig, moment.temporary, moment.note)
    assert_ended(rig, moment)


@moments(
    CrashState("while the text was being written", NEW[:4], None, None, "void"),
    CrashState("before it got its name", NEW, None, None, "void"),
    CrashState("after it got its name", None, NEW, NEW, "done"),
    CrashState("before it got its name, which a person took since", NEW, PERSONS, PERSONS, "void"),
)
def test_a_creation_cut_short(rig, moment):
    intended(rig, before=None)
    found(rig, moment.temporary, moment.note)
    assert_ended(rig, moment)


@moments(
    CrashState("before it lost its name", None, OLD, OLD, "void"),
    CrashState("after it lost its name", OLD, None, OLD, "void"),
    CrashState("after it was removed", None, None, None, "done"),
    CrashState("after that, and a person took its name since", OLD, PERSONS, PERSONS, "void"),
    CrashState("after a person's text lost its name", PERSONS, None, PERSONS, "void"),
)
def test_a_deletion_cut_short(rig, moment):
    intended(rig, after=None)
    found(rig, moment.temporary, moment.note)
    assert_ended(rig, moment)


def test_two_texts_of_a_person_are_both_kept_one_as_a_copy(rig):
    intended(rig)
    found(rig, PERSONS, NEWER)
    (said,) = rig.recovery.run()
    assert COPY in said
    assert (rig.names(), rig.text(NOTE), rig.text(COPY)) == (sorted([NOTE, COPY]), NEWER, PERSONS)
    assert rig.history.intended() == []


def test_a_write_that_failed_after_its_exchange_is_taken_back_when_asked(rig):
    write = intended(rig)
    found(rig, OLD, NEW)
    assert rig.recovery.settle(write, undo=True) is None
    assert (rig.names(), rig.text(NOTE)) == ([NOTE], OLD)
    assert rig.history.writes_of(NOTE) == []


def test_a_folder_that_is_gone_settles_what_was_to_be_in_it(rig):
    digest = rig.objects.put(OLD.encode())
    for before, after in ((digest, None), (None, digest)):
        rig.intend("gone/note.md", before=before, after=after)
    assert rig.recovery.run() == []
    assert [(write.after, write.state) for write in rig.history.writes_of("gone/note.md")] == [
        (None, "done")
    ]


def test_a_vault_that_is_not_there_settles_nothing_and_is_looked_at_again(rig):
    write = intended(rig)
    rig.vault.rename(rig.vault.with_name("elsewhere"))
    (said,) = rig.recovery.run()
    assert NOTE in said
    assert rig.history.intended() == [write]


def test_texts_that_were_being_kept_when_it_died_are_swept_away(rig, home):
    (home / "objects/unfinished").mkdir(exist_ok=True)
    (home / "objects/unfinished/half").write_bytes(b"ha")
    kept = rig.objects.put(b"whole")
    assert rig.recovery.run() == []
    assert list((home / "objects/unfinished").iterdir()) == []
    assert rig.objects.get(kept) == b"whole"
