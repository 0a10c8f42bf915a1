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
from tests.vault.conftest import StoreRig
from tests.vault.rig.shim import KILLED, FaultInjector, failing, killing
from tests.vault.rig.work import ME, TrialFolder, now

NOTE = b"# A\n\n## Facts\n- one\n"
NEW = NOTE + b"- two\n"
NAMES = ("a.md", "b.md", "Sub/c.md")


def edits(store_rig: StoreRig, *names: str, section: str = "Facts") -> list[EditBatch]:
    request = EditRequest(edit=AppendToSection(section=section, content="- two"))
    return [
        EditBatch(path=store_rig.root.resolve(name), requests=[request], author=store_rig.agent)
        for name in names
    ]


def fill(store_rig: StoreRig) -> None:
    for name in NAMES:
        store_rig.put(name, NOTE)


def test_several_notes_are_written_and_each_is_answered_and_recorded(store_rig: StoreRig):
    fill(store_rig)
    answers = store_rig.store.edit_many(edits(store_rig, *NAMES))

    assert [(one.path, one.before, one.after) for (one,) in answers] == [
        (name, digest_of(NOTE), digest_of(NEW)) for name in NAMES
    ]
    assert [store_rig.text(name).encode() for name in NAMES] == [NEW] * 3
    assert [[write.state for write in store_rig.history.writes_of(name)] for name in NAMES] == [
        ["done"]
    ] * 3
    assert store_rig.names() == sorted(NAMES)
    assert store_rig.objects.get(digest_of(NEW)) == NEW


def test_what_cannot_be_done_to_one_note_is_reported_of_that_one_alone(store_rig: StoreRig):
    fill(store_rig)
    requests = [
        *edits(store_rig, "a.md"),
        *edits(store_rig, "missing.md"),
        *edits(store_rig, "b.md", section="None"),
        *edits(store_rig, "Sub/c.md"),
    ]
    answers = [one for (one,) in store_rig.store.edit_many(requests)]

    assert [type(one) for one in answers] == [
        WriteResult,
        NotFoundError,
        NotFoundError,
        WriteResult,
    ]
    assert [store_rig.text(name).encode() for name in NAMES] == [NEW, NOTE, NEW]


def test_two_names_of_one_note_lose_nothing(store_rig: StoreRig):
    fill(store_rig)
    (store_rig.vault / "link.md").symlink_to("a.md")
    request = EditRequest(edit=AppendToSection(section="Facts", content="- two"))
    notes = [
        EditBatch(path=VaultPath(name), requests=[request], author=store_rig.agent)
        for name in ("a.md", "link.md")
    ]
    answers = [one for (one,) in store_rig.store.edit_many(notes)]

    assert [type(one) for one in answers] == [WriteResult, WriteResult]
    assert store_rig.text("a.md").encode() == NEW + b"- two\n"


def test_a_note_that_a_program_is_saving_does_not_hold_up_what_is_right_with_the_others(
    store_rig: StoreRig,
):
    fill(store_rig)
    with (store_rig.vault / "a.md").open("ab") as saving:
        saving.write(b"- a person's\n")
        saving.flush()
        answers = [one for (one,) in store_rig.store.edit_many(edits(store_rig, "a.md", "b.md"))]

    assert [type(one) for one in answers] == [WriteResult, WriteResult]
    assert store_rig.text("a.md") == NOTE.decode() + "- a person's\n- two\n"


def test_a_note_whose_swap_fails_keeps_its_text_and_the_others_are_written(
    store_rig: StoreRig, monkeypatch: pytest.MonkeyPatch
):
    fill(store_rig)
    real = os.unlink

    def unlink(name, *, dir_fd=None):
        if (
            dir_fd is not None
            and str(name).endswith(".tmp")
            and os.path.samestat(os.fstat(dir_fd), (store_rig.vault / "Sub").stat())
        ):
            monkeypatch.setattr(os, "unlink", real)
            failing(28)("unlink")
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    answers = [one for (one,) in store_rig.store.edit_many(edits(store_rig, *NAMES))]

    assert [type(one) for one in answers] == [WriteResult, WriteResult, StorageFailedError]
    assert [store_rig.text(name).encode() for name in NAMES] == [NEW, NEW, NOTE]
    assert store_rig.names() == sorted(NAMES)
    assert store_rig.store.trouble is not None


def test_killed_at_any_call_each_note_is_old_or_new_by_itself_and_recovery_leaves_nothing(
    tmp_path: Path,
):
    at, mixed, place = 0, 0, TrialFolder(tmp_path)
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


def _killed(place: TrialFolder, at: int) -> int:
    pid = os.fork()
    if not pid:
        request = EditRequest(edit=AppendToSection(section="Facts", content="- two"))
        with place.opened() as opened:
            FaultInjector(at, killing).install()
            opened.store.edit_many(
                [EditBatch(path=VaultPath(name), requests=[request], author=ME) for name in NAMES]
            )
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
