"""Revert: a write is taken back out, and nothing that anybody wrote since."""

from __future__ import annotations

import pytest

from parachuted.errors import ConflictError, NotFoundError
from parachuted.history.revert import RevertResult, revert
from parachuted.vault.history import Author, Write
from parachuted.vault.paths import VaultPath

NOTE = VaultPath("note.md")
OLD = "# Note\n\n## Facts\n\none\ntwo\n\n## Ideas\n\nthought\n"
NEW = OLD.replace("one", "ONE").replace("thought", "deed")
PERSON = Author(by="person")


def replaced(shelf) -> Write:
    shelf.put(NOTE, OLD)
    shelf.store.replace(NOTE, NEW.encode(), shelf.agent)
    return shelf.history.writes_of(NOTE)[-1]


def undo(shelf, write: Write) -> RevertResult:
    return revert(write, shelf.store, shelf.objects, PERSON)


def test_a_write_is_taken_back_and_that_is_a_write_too(shelf):
    write = replaced(shelf)
    assert undo(shelf, write) == RevertResult(path=NOTE, changed=True)
    assert shelf.text(NOTE) == OLD
    assert [one.author for one in shelf.history.writes_of(NOTE)] == [shelf.agent, PERSON]
    assert undo(shelf, write) == RevertResult(path=NOTE, changed=False)


def test_what_a_person_wrote_elsewhere_since_stays(shelf):
    write = replaced(shelf)
    shelf.put(NOTE, NEW.replace("# Note\n", "# Note\n\nmine\n"))
    assert undo(shelf, write) == RevertResult(path=NOTE, changed=True)
    assert shelf.text(NOTE) == OLD.replace("# Note\n", "# Note\n\nmine\n")


def test_what_a_person_wrote_over_it_since_is_kept_and_listed(shelf):
    write = replaced(shelf)
    shelf.put(NOTE, NEW.replace("ONE", "eins"))
    reverted = undo(shelf, write)
    assert reverted.changed
    assert "eins" in "".join(reverted.kept)
    assert shelf.text(NOTE) == OLD.replace("one", "eins")


def test_a_created_file_goes_unless_it_was_edited_since(shelf):
    shelf.store.create(NOTE, b"created\n", shelf.agent)
    (write,) = shelf.history.writes_of(NOTE)
    shelf.put(NOTE, "created, and mine\n")
    assert undo(shelf, write) == RevertResult(
        path=NOTE, changed=False, kept=("the new file has been edited since",)
    )
    assert shelf.text(NOTE) == "created, and mine\n"
    shelf.put(NOTE, "created\n")
    assert undo(shelf, write) == RevertResult(path=NOTE, changed=True)
    assert shelf.names() == []
    assert undo(shelf, write) == RevertResult(path=NOTE, changed=False)


def test_a_deleted_file_comes_back_unless_there_is_a_newer_one(shelf):
    shelf.put(NOTE, OLD)
    shelf.store.delete(NOTE, shelf.agent)
    (write,) = shelf.history.writes_of(NOTE)
    shelf.put(NOTE, "newer\n")
    assert undo(shelf, write) == RevertResult(
        path=NOTE, changed=False, kept=("there is a newer file of that name",)
    )
    assert shelf.text(NOTE) == "newer\n"
    (shelf.vault / NOTE).unlink()
    assert undo(shelf, write) == RevertResult(path=NOTE, changed=True)
    assert shelf.text(NOTE) == OLD


def test_a_file_that_a_person_deleted_since_stays_deleted(shelf):
    write = replaced(shelf)
    (shelf.vault / NOTE).unlink()
    assert undo(shelf, write) == RevertResult(path=NOTE, changed=False)
    assert shelf.names() == []


def test_a_text_that_is_no_longer_kept_cannot_be_had_back(shelf, home):
    write = replaced(shelf)
    (home / "objects" / write.before[:2] / write.before[2:]).unlink()
    with pytest.raises(NotFoundError, match="no longer kept"):
        undo(shelf, write)
    assert shelf.text(NOTE) == NEW


def test_a_file_that_never_rests_is_left_alone(shelf, monkeypatch):
    write = replaced(shelf)

    def clash(*_: object, **__: object) -> None:
        raise ConflictError(base=b"", ours=b"", theirs=b"")

    monkeypatch.setattr(shelf.store, "replace", clash)
    assert undo(shelf, write) == RevertResult(
        path=NOTE, changed=False, kept=("the file is being changed too quickly",)
    )
    assert shelf.text(NOTE) == NEW


def test_an_addition_goes_though_a_later_one_stands_right_below_it(shelf):
    shelf.put(NOTE, "# Note\n\n## History\n")
    shelf.store.replace(NOTE, b"# Note\n\n## History\n\n<!-- 1 -->\n- first\n", shelf.agent)
    write = shelf.history.writes_of(NOTE)[-1]
    shelf.store.replace(
        NOTE, b"# Note\n\n## History\n\n<!-- 1 -->\n- first\n\n<!-- 2 -->\n- second\n", shelf.agent
    )

    reverted = undo(shelf, write)

    assert (reverted.changed, reverted.kept) == (True, ())
    assert shelf.text(NOTE) == "# Note\n\n## History\n\n<!-- 2 -->\n- second\n"
