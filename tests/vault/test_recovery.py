"""Recovery: for each moment at which a write can be cut short, what is on the disk afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from parachuted.vault.root import digest_of
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


def intended(store_rig, before: str | None = OLD, after: str | None = NEW) -> Write:
    digests = [
        None if text is None else store_rig.objects.put(text.encode()) for text in (before, after)
    ]
    return store_rig.intend(NOTE, before=digests[0], after=digests[1], temporary=TEMPORARY)


def found(store_rig, temporary: str | None, note: str | None) -> None:
    for name, text in ((TEMPORARY, temporary), (NOTE, note)):
        if text is not None:
            (store_rig.vault / name).write_text(text)


def assert_ended(store_rig, moment: CrashState) -> None:
    assert store_rig.recovery.run() == []
    assert store_rig.names() == ([] if moment.becomes is None else [NOTE])
    assert moment.becomes is None or store_rig.text(NOTE) == moment.becomes
    assert store_rig.history.intended() == []
    assert [write.state for write in store_rig.history.writes_of(NOTE)] == (
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
    CrashState(
        "after it took out a person's text, and the note was removed",
        PERSONS,
        None,
        PERSONS,
        "void",
    ),
)
def test_a_replacement_cut_short(store_rig, moment):
    intended(store_rig)
    found(store_rig, moment.temporary, moment.note)
    assert_ended(store_rig, moment)


@moments(
    CrashState("while the text was being written", NEW[:4], None, None, "void"),
    CrashState("before it got its name", NEW, None, None, "void"),
    CrashState("after it got its name", None, NEW, NEW, "done"),
    CrashState("before it got its name, which a person took since", NEW, PERSONS, PERSONS, "void"),
)
def test_a_creation_cut_short(store_rig, moment):
    intended(store_rig, before=None)
    found(store_rig, moment.temporary, moment.note)
    assert_ended(store_rig, moment)


@moments(
    CrashState("before it lost its name", None, OLD, OLD, "void"),
    CrashState("after it lost its name", OLD, None, OLD, "void"),
    CrashState("after it was removed", None, None, None, "done"),
    CrashState(
        "after it lost its name, and a person took that since", OLD, PERSONS, PERSONS, "void"
    ),
    CrashState("after a person's text lost its name", PERSONS, None, PERSONS, "void"),
)
def test_a_deletion_cut_short(store_rig, moment):
    intended(store_rig, after=None)
    found(store_rig, moment.temporary, moment.note)
    assert_ended(store_rig, moment)


def test_two_texts_of_a_person_are_both_kept_one_as_a_copy_and_that_is_said(store_rig):
    intended(store_rig)
    found(store_rig, PERSONS, NEWER)
    (said,) = store_rig.recovery.run()
    assert COPY in said
    assert (store_rig.names(), store_rig.text(NOTE), store_rig.text(COPY)) == (
        sorted([NOTE, COPY]),
        NEWER,
        PERSONS,
    )
    assert store_rig.history.intended() == []


def test_a_write_that_failed_after_its_exchange_is_taken_back_when_asked(store_rig):
    write = intended(store_rig)
    found(store_rig, OLD, NEW)
    assert store_rig.recovery.settle(write, undo=True) is None
    assert (store_rig.names(), store_rig.text(NOTE)) == ([NOTE], OLD)
    assert store_rig.history.writes_of(NOTE) == []


def test_a_folder_that_is_gone_settles_what_was_to_be_in_it(store_rig):
    digest = store_rig.objects.put(OLD.encode())
    for before, after in ((digest, None), (None, digest)):
        store_rig.intend("gone/note.md", before=before, after=after)
    assert store_rig.recovery.run() == []
    assert [
        (write.after, write.state) for write in store_rig.history.writes_of("gone/note.md")
    ] == [(None, "done")]


def test_a_vault_that_is_not_there_settles_nothing_and_is_looked_at_again(store_rig):
    write = intended(store_rig)
    store_rig.vault.rename(store_rig.vault.with_name("elsewhere"))
    (said,) = store_rig.recovery.run()
    assert NOTE in said
    assert store_rig.history.intended() == [write]


def test_texts_that_were_being_kept_when_it_died_are_swept_away(store_rig, home):
    unfinished = home / "objects" / "unfinished"
    unfinished.mkdir(exist_ok=True)
    (unfinished / "half").write_bytes(b"ha")
    kept = store_rig.objects.put(b"whole")
    assert store_rig.recovery.run() == []
    assert list(unfinished.iterdir()) == []
    assert store_rig.objects.get(kept) == b"whole"
    assert digest_of(b"whole") == kept
