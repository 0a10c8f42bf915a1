"""Recovery: for each moment at which a write can be cut short, what is on the disk afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from parachuted.vault.history import Write
from parachuted.vault.recovery import Recovery
from parachuted.vault.root import digest_of

NOTE, TEMPORARY = "note.md", ".parachute-0123456789abcdef.tmp"
OLD, NEW, PERSONS, NEWER = "old text\n", "new text\n", "a person's\n", "newer still\n"
COPY = "note (Conflicted copy parachute 20261121231502).md"


@dataclass(frozen=True)
class Moment:
    """What was found under the temporary name and under the note's, and what is to be there
    afterwards.
    """

    story: str
    temporary: str | None
    note: str | None
    becomes: str | None
    state: str


def intended(shelf, before: str | None = OLD, after: str | None = NEW) -> Write:
    digests = [
        None if text is None else shelf.objects.put(text.encode()) for text in (before, after)
    ]
    return shelf.history.intend(
        at=shelf.now,
        path=NOTE,
        author=shelf.agent,
        operation="ReplaceAll",
        before=digests[0],
        after=digests[1],
        temporary=TEMPORARY,
    )


def found(shelf, temporary: str | None, note: str | None) -> None:
    for name, text in ((TEMPORARY, temporary), (NOTE, note)):
        if text is not None:
            (shelf.vault / name).write_text(text)


def recovery(shelf) -> Recovery:
    return Recovery(root=shelf.root, objects=shelf.objects, history=shelf.history, now=shelf.now)


def assert_ended(shelf, moment: Moment) -> None:
    assert recovery(shelf).run() == []
    assert shelf.names() == ([] if moment.becomes is None else [NOTE])
    assert moment.becomes is None or shelf.text(NOTE) == moment.becomes
    assert shelf.history.intended() == []
    assert [write.state for write in shelf.history.writes_of(NOTE)] == (
        [] if moment.state == "void" else ["done"]
    )


def moments(*rows: Moment) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("moment", rows, ids=[row.story for row in rows])


@moments(
    Moment("before anything was written", None, OLD, OLD, "void"),
    Moment("while the new text was being written", NEW[:4], OLD, OLD, "void"),
    Moment("before the first byte of the new text", "", OLD, OLD, "void"),
    Moment("before the exchange", NEW, OLD, OLD, "void"),
    Moment("after the exchange", OLD, NEW, NEW, "done"),
    Moment("after the old text was removed", None, NEW, NEW, "done"),
    Moment("before the exchange, and a person saved since", NEW, PERSONS, PERSONS, "void"),
    Moment("after the exchange, and a person saved since", OLD, PERSONS, PERSONS, "void"),
    Moment("after an exchange that took out a person's text", PERSONS, NEW, PERSONS, "void"),
    Moment(
        "after it took out a person's text, and the note was removed",
        PERSONS,
        None,
        PERSONS,
        "void",
    ),
)
def test_a_replacement_cut_short(shelf, moment):
    intended(shelf)
    found(shelf, moment.temporary, moment.note)
    assert_ended(shelf, moment)


@moments(
    Moment("while the text was being written", NEW[:4], None, None, "void"),
    Moment("before it got its name", NEW, None, None, "void"),
    Moment("after it got its name", None, NEW, NEW, "done"),
    Moment("before it got its name, which a person took since", NEW, PERSONS, PERSONS, "void"),
)
def test_a_creation_cut_short(shelf, moment):
    intended(shelf, before=None)
    found(shelf, moment.temporary, moment.note)
    assert_ended(shelf, moment)


@moments(
    Moment("before it lost its name", None, OLD, OLD, "void"),
    Moment("after it lost its name", OLD, None, OLD, "void"),
    Moment("after it was removed", None, None, None, "done"),
    Moment("after it lost its name, and a person took that since", OLD, PERSONS, PERSONS, "void"),
    Moment("after a person's text lost its name", PERSONS, None, PERSONS, "void"),
)
def test_a_deletion_cut_short(shelf, moment):
    intended(shelf, after=None)
    found(shelf, moment.temporary, moment.note)
    assert_ended(shelf, moment)


def test_two_texts_of_a_person_are_both_kept_one_as_a_copy_and_that_is_said(shelf):
    intended(shelf)
    found(shelf, PERSONS, NEWER)
    (said,) = recovery(shelf).run()
    assert COPY in said
    assert (shelf.names(), shelf.text(NOTE), shelf.text(COPY)) == (
        sorted([NOTE, COPY]),
        NEWER,
        PERSONS,
    )
    assert shelf.history.intended() == []


def test_a_write_that_failed_after_its_exchange_is_taken_back_when_asked(shelf):
    write = intended(shelf)
    found(shelf, OLD, NEW)
    assert recovery(shelf).settle(write, undo=True) is None
    assert (shelf.names(), shelf.text(NOTE)) == ([NOTE], OLD)
    assert shelf.history.writes_of(NOTE) == []


def test_a_folder_that_is_gone_settles_what_was_to_be_in_it(shelf):
    digest = shelf.objects.put(OLD.encode())
    for before, after in ((digest, None), (None, digest)):
        shelf.history.intend(
            at=shelf.now,
            path="gone/note.md",
            author=shelf.agent,
            operation="x",
            before=before,
            after=after,
            temporary=TEMPORARY,
        )
    assert recovery(shelf).run() == []
    assert [(write.after, write.state) for write in shelf.history.writes_of("gone/note.md")] == [
        (None, "done")
    ]


def test_a_vault_that_is_not_there_settles_nothing_and_is_looked_at_again(shelf):
    write = intended(shelf)
    shelf.vault.rename(shelf.vault.with_name("elsewhere"))
    (said,) = recovery(shelf).run()
    assert NOTE in said
    assert shelf.history.intended() == [write]


def test_texts_that_were_being_kept_when_it_died_are_swept_away(shelf, home):
    unfinished = home / "objects" / "unfinished"
    unfinished.mkdir(exist_ok=True)
    (unfinished / "half").write_bytes(b"ha")
    kept = shelf.objects.put(b"whole")
    assert recovery(shelf).run() == []
    assert list(unfinished.iterdir()) == []
    assert shelf.objects.get(kept) == b"whole"
    assert digest_of(b"whole") == kept
