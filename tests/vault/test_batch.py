from __future__ import annotations

import os
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError, StorageFailedError
from parachuted.vault import (
    AppendToSection,
    EditBatch,
    EditRequest,
    Recovery,
    VaultPath,
    WriteResult,
    digest_of,
)
from tests.vault.conftest import Shelf
from tests.vault.rig.shim import KILLED, Shim, failing, killing
from tests.vault.rig.work import ME, Place, now

NOTE = b"# A\n\n## Facts\n- one\n"
NEW = NOTE + b"- two\n"
NAMES = ("a.md", "b.md", "Sub/c.md")


def edits(shelf: Shelf, *names: str, section: str = "Facts") -> list[EditBatch]:
    request = EditRequest(edit=AppendToSection(section=section, content="- two"))
    return [
        EditBatch(path=shelf.root.resolve(name), requests=[request], author=shelf.agent)
        for name in names
    ]


def fill(shelf: Shelf) -> None:
    for name in NAMES:
        shelf.put(name, NOTE)


def test_several_notes_are_written_and_each_is_answered_and_recorded(shelf: Shelf):
    fill(shelf)
    answers = shelf.store.edit_many(edits(shelf, *NAMES))

    assert [(one.path, one.before, one.after) for (one,) in answers] == [
        (name, digest_of(NOTE), digest_of(NEW)) for name in NAMES
    ]
    assert [shelf.text(name).encode() for name in NAMES] == [NEW] * 3
    assert [[write.state for write in shelf.history.writes_of(name)] for name in NAMES] == [
        ["done"]
    ] * 3
    assert shelf.names() == sorted(NAMES)
    assert shelf.objects.get(digest_of(NEW)) == NEW


def test_what_cannot_be_done_to_one_note_is_told_of_that_one_alone(shelf: Shelf):
    fill(shelf)
    requests = [
        *edits(shelf, "a.md"),
        *edits(shelf, "missing.md"),
        *edits(shelf, "b.md", section="None"),
        *edits(shelf, "Sub/c.md"),
    ]
    answers = [one for (one,) in shelf.store.edit_many(requests)]

    assert [type(one) for one in answers] == [
        WriteResult,
        NotFoundError,
        NotFoundError,
        WriteResult,
    ]
    assert [shelf.text(name).encode() for name in NAMES] == [NEW, NOTE, NEW]


def test_two_names_of_one_note_lose_nothing(shelf: Shelf):
    fill(shelf)
    (shelf.vault / "link.md").symlink_to("a.md")
    request = EditRequest(edit=AppendToSection(section="Facts", content="- two"))
    notes = [
        EditBatch(path=VaultPath(name), requests=[request], author=shelf.agent)
        for name in ("a.md", "link.md")
    ]
    answers = [one for (one,) in shelf.store.edit_many(notes)]

    assert [type(one) for one in answers] == [WriteResult, WriteResult]
    assert shelf.text("a.md").encode() == NEW + b"- two\n"


def test_a_note_that_a_program_is_saving_does_not_hold_up_what_is_right_with_the_others(
    shelf: Shelf,
):
    fill(shelf)
    with (shelf.vault / "a.md").open("ab") as saving:
        saving.write(b"- a person's\n")
        saving.flush()
        answers = [one for (one,) in shelf.store.edit_many(edits(shelf, "a.md", "b.md"))]

    assert [type(one) for one in answers] == [WriteResult, WriteResult]
    assert shelf.text("a.md") == NOTE.decode() + "- a person's\n- two\n"


def test_a_note_whose_swap_fails_keeps_its_text_and_the_others_are_written(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
):
    fill(shelf)
    real = os.unlink

    def unlink(name, *, dir_fd=None):
        if (
            dir_fd is not None
            and str(name).endswith(".tmp")
            and os.path.samestat(os.fstat(dir_fd), (shelf.vault / "Sub").stat())
        ):
            monkeypatch.setattr(os, "unlink", real)
            failing(28)("unlink")
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    answers = [one for (one,) in shelf.store.edit_many(edits(shelf, *NAMES))]

    assert [type(one) for one in answers] == [WriteResult, WriteResult, StorageFailedError]
    assert [shelf.text(name).encode() for name in NAMES] == [NEW, NEW, NOTE]
    assert shelf.names() == sorted(NAMES)
    assert shelf.store.trouble is not None


def test_killed_at_any_call_each_note_is_old_or_new_by_itself_and_recovery_leaves_nothing(
    tmp_path: Path,
):
    at, mixed, place = 0, 0, Place(tmp_path)
    for at in range(1, 1000, 4):
        for name in NAMES:
            (place.vault / name).parent.mkdir(parents=True, exist_ok=True)
            (place.vault / name).write_bytes(NOTE)
        if _killed(place, at) != KILLED:
            break
        with place.opened() as opened:
            said = Recovery(
                root=opened.root, objects=opened.objects, history=opened.history, now=now()
            ).run()
            files = place.files()
            last = {name: opened.history.writes_of(name)[-1:] for name in NAMES}
            assert (at, said, opened.history.intended(), sorted(files)) == (
                at,
                [],
                [],
                sorted(NAMES),
            )
            assert set(files.values()) <= {NOTE, NEW}
            assert all(
                last[name][0].after == digest_of(NEW) for name in NAMES if files[name] == NEW
            )
            mixed += len(set(files.values())) > 1
    assert at > 50
    assert mixed


def _killed(place: Place, at: int) -> int:
    pid = os.fork()
    if not pid:
        request = EditRequest(edit=AppendToSection(section="Facts", content="- two"))
        with place.opened() as opened:
            Shim(at, killing).install()
            opened.store.edit_many(
                [EditBatch(path=VaultPath(name), requests=[request], author=ME) for name in NAMES]
            )
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
