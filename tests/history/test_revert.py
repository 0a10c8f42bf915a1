"""Revert: a write is taken back out, and nothing that anybody wrote since."""

from __future__ import annotations

import pytest

from parachuted.errors import ConflictError, NotFoundError
from parachuted.history.undo import RevertResult, revert
from parachuted.vault.author import Author
from parachuted.vault.paths import VaultPath
from parachuted.vault.write_records import Write

NOTE = VaultPath("note.md")
OLD = "# Note\n\n## Facts\n\none\ntwo\n\n## Ideas\n\nthought\n"
NEW = OLD.replace("one", "ONE").replace("thought", "deed")
PERSON = Author(by="person")


def replaced(rig) -> Write:
    rig.put(NOTE, OLD)
    rig.store.replace(NOTE, NEW.encode(), rig.agent)
    return rig.history.writes_of(NOTE)[-1]


def undo(rig, write: Write) -> RevertResult:
    return revert(write, rig.store, PERSON)


def test_a_write_is_taken_back_and_that_is_a_write_too(rig):
    write = replaced(rig)
    assert undo(rig, write) == RevertResult(path=NOTE, changed=True)
    assert rig.text(NOTE) == OLD
    assert [one.author for one in rig.history.writes_of(NOTE)] == [rig.agent, PERSON]
    assert undo(rig, write) == RevertResult(path=NOTE, changed=False)


def test_what_a_person_wrote_elsewhere_since_stays(rig):
    write = replaced(rig)
    rig.put(NOTE, NEW.replace("# Note\n", "# Note\n\nmine\n"))
    assert undo(rig, write) == RevertResult(path=NOTE, changed=True)
    assert rig.text(NOTE) == OLD.replace("# Note\n", "# Note\n\nmine\n")


def test_what_a_person_wrote_over_it_since_is_kept_and_listed(rig):
    write = replaced(rig)
    rig.put(NOTE, NEW.replace("ONE", "eins"))
    reverted = undo(rig, write)
    assert reverted.changed
    assert "eins" in "".join(reverted.kept)
    assert rig.text(NOTE) == OLD.replace("one", "eins")


def test_a_created_file_goes_unless_it_was_edited_since(rig):
    rig.store.create(NOTE, b"created\n", rig.agent)
    (write,) = rig.history.writes_of(NOTE)
    rig.put(NOTE, "created, and mine\n")
    assert undo(rig, write) == RevertResult(
        path=NOTE, changed=False, kept=("the new file has been edited since",)
    )
    assert rig.text(NOTE) == "created, and mine\n"
    rig.put(NOTE, "created\n")
    assert undo(rig, write) == RevertResult(path=NOTE, changed=True)
    assert rig.names() == []
    assert undo(rig, write) == RevertResult(path=NOTE, changed=False)


def test_a_deleted_file_comes_back_unless_there_is_a_newer_one(rig):
    rig.put(NOTE, OLD)
    rig.store.delete(NOTE, rig.agent)
    (write,) = rig.history.writes_of(NOTE)
    rig.put(NOTE, "newer\n")
    assert undo(rig, write) == RevertResult(
        path=NOTE, changed=False, kept=("there is a newer file of that name",)
    )
    assert rig.text(NOTE) == "newer\n"
    (rig.vault / NOTE).unlink()
    assert undo(rig, write) == RevertResult(path=NOTE, changed=True)
    assert rig.text(NOTE) == OLD


def test_a_file_that_a_person_deleted_since_stays_deleted(rig):
    write = replaced(rig)
    (rig.vault / NOTE).unlink()
    assert undo(rig, write) == RevertResult(path=NOTE, changed=False)
    assert rig.names() == []


def test_a_text_that_is_no_longer_kept_cannot_be_had_back(rig, home):
    write = replaced(rig)
    (home / "objects" / write.before[:2] / write.before[2:]).unlink()
    with pytest.raises(NotFoundError, match="no longer kept"):
        undo(rig, write)
    assert rig.text(NOTE) == NEW


def test_a_file_that_never_rests_is_left_alone(rig, monkeypatch):
    write = replaced(rig)

    def clash(*_: object, **__: object) -> None:
        raise ConflictError(base=b"", ours=b"", theirs=b"")

    monkeypatch.setattr(rig.store, "replace", clash)
    assert undo(rig, write) == RevertResult(
        path=NOTE, changed=False, kept=("the file is being changed too quickly",)
    )
    assert rig.text(NOTE) == NEW


def test_an_addition_goes_though_a_later_one_stands_right_below_it(rig):
    rig.put(NOTE, "# Note\n\n## History\n")
    rig.store.replace(NOTE, b"# Note\n\n## History\n\n<!-- 1 -->\n- first\n", rig.agent)
    write = rig.history.writes_of(NOTE)[-1]
    rig.store.replace(
        NOTE, b"# Note\n\n## History\n\n<!-- 1 -->\n- first\n\n<!-- 2 -->\n- second\n", rig.agent
    )

    reverted = undo(rig, write)

    assert (reverted.changed, reverted.kept) == (True, ())
    assert rig.text(NOTE) == "# Note\n\n## History\n\n<!-- 2 -->\n- second\n"
