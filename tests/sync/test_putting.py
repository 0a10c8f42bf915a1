from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest

from parachuted.errors import ConflictError, PathRefusedError
from parachuted.sync import can_be_merged, put_whole
from parachuted.vault import Author, ObjectStore, Store, VaultPath, VaultRoot, WriteJournal

LINES = b"".join(b"line %d\n" % number for number in range(9))
ME = Author(by="person")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def desk(vault, home):
    objects, history = ObjectStore(home / "objects"), WriteJournal(home / "history.db")
    store = Store(VaultRoot(vault), objects, history, lambda: datetime(2026, 11, 22, tzinfo=UTC))

    def put(path: str, data: bytes, base: bytes | str | None = None):
        return put_whole(
            store, VaultPath(path), data, ME, base=digest(base) if isinstance(base, bytes) else base
        )

    yield put, objects
    store.close()
    history.close()
    objects.close()


def test_made_written_unchanged_and_merged(vault, desk):
    put, objects = desk

    assert put("a.md", LINES).outcome == "created"
    assert put("a.md", LINES).outcome == "unchanged"
    assert put("a.md", LINES + b"more\n", LINES).outcome == "written"
    merged = put("a.md", b"first\n" + LINES, LINES)

    assert merged.outcome == "merged"
    assert (vault / "a.md").read_bytes() == b"first\n" + LINES + b"more\n"
    assert merged.hash == digest(b"first\n" + LINES + b"more\n")
    assert objects.get(merged.hash) is not None


def test_without_a_base_what_was_there_is_named_and_kept(vault, desk):
    put, objects = desk
    (vault / "a.md").write_bytes(b"a person's\n")

    assert put("a.md", b"the phone's\n").replaced == digest(b"a person's\n")
    assert objects.get(digest(b"a person's\n")) == b"a person's\n"


@pytest.mark.parametrize("base", [LINES, "0" * 64])
def test_a_clash_writes_nothing_and_keeps_what_stands_as_the_next_base(vault, desk, base):
    put, objects = desk
    objects.put(LINES)
    theirs = LINES.replace(b"line 4", b"theirs")
    (vault / "a.md").write_bytes(theirs)

    with pytest.raises(ConflictError) as caught:
        put("a.md", LINES.replace(b"line 4", b"ours"), base)

    assert (caught.value.theirs, (vault / "a.md").read_bytes()) == (theirs, theirs)
    assert objects.get(digest(theirs)) == theirs


def test_an_edit_of_a_file_that_is_gone_brings_it_back(vault, desk):
    put, _ = desk

    assert put("a.md", b"edited\n", b"deleted\n").outcome == "created"


def test_what_is_not_text_is_never_merged(vault, desk):
    put, objects = desk
    objects.put(b"\0one\n")
    (vault / "a.bin").write_bytes(b"\0one\ntwo\n")

    with pytest.raises(ConflictError):
        put("a.bin", b"zero\n\0one\n", b"\0one\n")
    assert (can_be_merged(b"text", b"\xc3\xa4"), can_be_merged(b"\xff"), can_be_merged(b"\0")) == (
        True,
        False,
        False,
    )


def test_control_folders_are_refused(desk):
    put, _ = desk

    with pytest.raises(PathRefusedError):
        put(".claude/settings.json", b"{}")
