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


def replaced(store_rig) -> Write:
    store_rig.put(NOTE, OLD)
    store_rig.store.replace(NOTE, NEW.encode(), store_rig.agent)
    return store_rig.history.writes_of(NOTE)[-1]


def undo(store_rig, write: Write) -> RevertResult:
    return revert(write, store_rig.store, PERSON)


def test_a_write_is_taken_back_and_that_is_a_write_too(store_rig):
    write = replaced(store_rig)
    assert undo(store_rig, write) == RevertResult(path=NOTE, changed=True)
    assert store_rig.text(NOTE) == OLD
    assert [one.author for one in store_rig.history.writes_of(NOTE)] == [store_rig.agent, PERSON]
    assert undo(store_rig, write) == RevertResult(path=NOTE, changed=False)


def test_what_a_person_wrote_elsewhere_since_stays(store_rig):
    write = replaced(store_rig)
    store_rig.put(NOTE, NEW.replace("# Note\n", "# Note\n\nmine\n"))
    assert undo(store_rig, write) == RevertResult(path=NOTE, changed=True)
    assert store_rig.text(NOTE) == OLD.replace("# Note\n", "# Note\n\nmine\n")


def test_what_a_person_wrote_over_it_since_is_kept_and_listed(store_rig):
    write = replaced(store_rig)
    store_rig.put(NOTE, NEW.replace("ONE", "eins"))
    reverted = undo(store_rig, write)
    assert reverted.changed
    assert "eins" in "".join(reverted.kept)
    assert store_rig.text(NOTE) == OLD.replace("one", "eins")


def test_a_created_file_goes_unless_it_was_edited_since(store_rig):
    store_rig.store.create(NOTE, b"created\n", store_rig.agent)
    (write,) = store_rig.history.writes_of(NOTE)
    store_rig.put(NOTE, "created, and mine\n")
    assert undo(store_rig, write) == RevertResult(
        path=NOTE, changed=False, kept=("the new file has been edited since",)
    )
    assert store_rig.text(NOTE) == "created, and mine\n"
    store_rig.put(NOTE, "created\n")
    assert undo(store_rig, write) == RevertResult(path=NOTE, changed=True)
    assert store_rig.names() == []
    assert undo(store_rig, write) == RevertResult(path=NOTE, changed=False)


def test_a_deleted_file_comes_back_unless_there_is_a_newer_one(store_rig):
    store_rig.put(NOTE, OLD)
    store_rig.store.delete(NOTE, store_rig.agent)
    (write,) = store_rig.history.writes_of(NOTE)
    store_rig.put(NOTE, "newer\n")
    assert undo(store_rig, write) == RevertResult(
        path=NOTE, changed=False, kept=("there is a newer file of that name",)
    )
    assert store_rig.text(NOTE) == "newer\n"
    (store_rig.vault / NOTE).unlink()
    assert undo(store_rig, write) == RevertResult(path=NOTE, changed=True)
    assert store_rig.text(NOTE) == OLD


def test_a_file_that_a_person_deleted_since_stays_deleted(store_rig):
    write = replaced(store_rig)
    (store_rig.vault / NOTE).unlink()
    assert undo(store_rig, write) == RevertResult(path=NOTE, changed=False)
    assert store_rig.names() == []


def test_a_text_that_is_no_longer_kept_cannot_be_had_back(store_rig, home):
    write = replaced(store_rig)
    (home / "objects" / write.before[:2] / write.before[2:]).unlink()
    with pytest.raises(NotFoundError, match="no longer kept"):
        undo(store_rig, write)
    assert store_rig.text(NOTE) == NEW


def test_a_file_that_never_rests_is_left_alone(store_rig, monkeypatch):
    write = replaced(store_rig)

    def clash(*_: object, **__: object) -> None:
        raise ConflictError(base=b"", ours=b"", theirs=b"")

    monkeypatch.setattr(store_rig.store, "replace", clash)
    assert undo(store_rig, write) == RevertResult(
        path=NOTE, changed=False, kept=("the file is being changed too quickly",)
    )
    assert store_rig.text(NOTE) == NEW


def test_an_addition_goes_though_a_later_one_stands_right_below_it(store_rig):
    store_rig.put(NOTE, "# Note\n\n## History\n")
    store_rig.store.replace(NOTE, b"# Note\n\n## History\n\n<!-- 1 -->\n- first\n", store_rig.agent)
    write = store_rig.history.writes_of(NOTE)[-1]
    store_rig.store.replace(
        NOTE,
        b"# Note\n\n## History\n\n<!-- 1 -->\n- first\n\n<!-- 2 -->\n- second\n",
        store_rig.agent,
    )

    reverted = undo(store_rig, write)

    assert (reverted.changed, reverted.kept) == (True, ())
    assert store_rig.text(NOTE) == "# Note\n\n## History\n\n<!-- 2 -->\n- second\n"
