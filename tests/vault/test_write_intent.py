"""Intent: anyone who is asked before a write is told what it would do, holds no one up, and a no
leaves the vault as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from parachuted.errors import ActRefusedError, ConflictError, NotFoundError, StorageFailedError
from parachuted.history.undo import revert
from parachuted.vault.author import Author
from parachuted.vault.edit_request import WriteIntent
from parachuted.vault.edits import AppendToSection, ReplaceSection, SetFrontmatterKey
from parachuted.vault.paths import VaultPath
from parachuted.vault.rescue import rescue
from parachuted.vault.root import digest_of
from parachuted.vault.store import Store
from tests.vault.conftest import NOW, StoreRig

NOTE, OTHER = VaultPath("a/note.md"), VaultPath("a/other.md")
TEXT = "# Note\n\n## Facts\n\nold\n\n## Ideas\n\nthought\n"
NEW = TEXT.replace("old", "new")
FACTS = ReplaceSection(section="Facts", content="new\n")
PERSON = Author(by="person")


class RecordingGuard:
    """One that is asked before each write: remembers what it was asked, does `act`, and objects to
    what `objects` names.
    """

    def __init__(self) -> None:
        self.intents: list[WriteIntent] = []
        self.act: Callable[[WriteIntent], None] = lambda _intent: None
        self.refuses: Callable[[WriteIntent], bool] = lambda _intent: False
        self.is_asked = True

    def __call__(self, intent: WriteIntent) -> None:
        self.intents.append(intent)
        self.act(intent)
        if self.refuses(intent):
            raise ActRefusedError(f"hands off {intent.path}")


@pytest.fixture
def asked() -> RecordingGuard:
    return RecordingGuard()


@pytest.fixture
def store(rig: StoreRig, asked: RecordingGuard) -> Iterator[Store]:
    wanted = {"ask": asked, "is_asked": lambda: asked.is_asked}
    store = Store(rig.root, rig.objects, rig.history, lambda: NOW, **wanted)
    yield store
    store.close()


def whole(rig: StoreRig) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() if path.is_file() else b""
        for path in sorted(rig.vault.rglob("*"))
    }


WAYS: dict[str, Callable[[Store, StoreRig], object]] = {
    "edit": lambda store, _shelf: store.edit(NOTE, FACTS, PERSON),
    "replace": lambda store, _shelf: store.replace(NOTE, b"other\n", PERSON),
    "create": lambda store, _shelf: store.create(VaultPath("b/c/new.md"), b"new\n", PERSON),
    "place anew": lambda store, rig: store.place(
        VaultPath("b/c/new.md"), rig.objects.put(b"x"), PERSON, is_new=True
    ),
    "place anew, perhaps": lambda store, rig: store.place(
        VaultPath("b/c/new.md"), rig.objects.put(b"x"), PERSON
    ),
    "place over": lambda store, rig: store.place(NOTE, rig.objects.put(b"x"), PERSON),
    "delete": lambda store, _shelf: store.delete(NOTE, PERSON),
    "move": lambda store, _shelf: store.move(NOTE, VaultPath("b/c/moved.md"), PERSON),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_no_leaves_every_byte_and_every_folder_as_it_was(store, rig, asked, way):
    rig.put(NOTE, TEXT)
    asked.refuses = lambda _intent: True
    before = whole(rig)
    with pytest.raises(ActRefusedError, match="hands off"):
        WAYS[way](store, rig)

    assert whole(rig) == before
    assert rig.history.writes_of(NOTE) == []
    assert store.trouble is None


@pytest.mark.parametrize("way", WAYS)
def test_a_yes_is_asked_for_once_a_place_and_changes_nothing(store, rig, asked, way):
    rig.put(NOTE, TEXT)
    WAYS[way](store, rig)
    done = whole(rig)
    asked.is_asked = False
    for path in [path for path in rig.vault.rglob("*") if path.is_file()]:
        path.unlink()
    rig.put(NOTE, TEXT)
    WAYS[way](store, rig)

    assert whole(rig) == done
    assert len(asked.intents) == (2 if way == "move" else 1)


def test_who_is_asked_hears_where_by_which_author_what_and_which_parts(store, rig, asked):
    base = rig.put(NOTE, TEXT)
    store.edit(NOTE, FACTS, rig.agent)
    (intent,) = asked.intents

    assert (intent.path, intent.author, intent.operation) == (NOTE, rig.agent, "ReplaceSection")
    assert (intent.base, intent.digest) == (base, digest_of(NEW.encode()))
    assert intent.units() == ("Note > Facts",)
    assert "-old\n+new\n" in intent.diff()


def test_a_move_is_asked_about_at_both_places(store, rig, asked):
    digest = rig.put(NOTE, TEXT)
    store.move(NOTE, OTHER, PERSON)

    assert [
        (intent.path, intent.source, intent.base, intent.digest) for intent in asked.intents
    ] == [(NOTE, None, digest, None), (OTHER, NOTE, None, digest)]
    assert asked.intents[1].diff() == f"rename from {NOTE}\nrename to {OTHER}\n"
    assert asked.intents[1].units() == ()


def test_the_frontmatter_and_what_is_large_or_no_text_are_reported(store, rig, asked):
    rig.put(NOTE, "---\nstatus: draft\n---\nText.\n")
    store.edit(NOTE, SetFrontmatterKey(key="status", value="done"), PERSON)
    store.delete(NOTE, PERSON)
    rig.put(NOTE, b"\x00\x01")
    store.replace(NOTE, b"\x00\x02", PERSON)
    store.place(NOTE, rig.objects.put(b"x" * (5 << 20)), PERSON)

    edited, deleted, of_bytes, large = asked.intents
    assert dict(edited.frontmatter()) == dict(deleted.frontmatter()) == {"status": "done"}
    assert of_bytes.diff() == "(no text, so no lines can be compared)"
    assert large.diff() == "(too large to be compared)"
    assert large.units() == ("(whole note)",)


def test_a_write_that_changes_or_interests_nothing_is_not_asked_about(store, rig, asked):
    rig.put(NOTE, TEXT)
    store.replace(NOTE, TEXT.encode(), PERSON)
    asked.is_asked, asked.refuses = False, lambda _intent: True

    assert store.edit(NOTE, FACTS, PERSON).changed
    assert asked.intents == []


def test_who_is_asked_may_itself_read_and_write_from_any_thread(store, rig, asked):
    rig.put(NOTE, TEXT)
    rig.put(OTHER, "other\n")

    def act(intent: WriteIntent) -> None:
        if intent.path == NOTE:
            other = threading.Thread(
                target=lambda: store.replace(OTHER, store.read(NOTE).data, PERSON)
            )
            other.start()
            other.join(60)
            assert not other.is_alive()

    asked.act = act
    store.edit(NOTE, FACTS, PERSON)

    assert (rig.text(NOTE), rig.text(OTHER)) == (NEW, TEXT)


@pytest.fixture
def base(rig: StoreRig, asked: RecordingGuard) -> str:
    """A note that a person saves again while its first write is asked about."""

    def act(_intent: WriteIntent) -> None:
        if len(asked.intents) == 1:
            (rig.vault / NOTE).write_text(TEXT.replace("thought", "deed"))

    asked.act = act
    return rig.put(NOTE, TEXT)


def test_what_was_saved_while_they_were_asked_is_asked_about_again(store, rig, asked, base):
    store.edit(NOTE, FACTS, PERSON, base=base)

    both = NEW.replace("thought", "deed")
    assert rig.text(NOTE) == both
    asked_about = [digest_of(text.encode()) for text in (NEW, both)]
    assert [intent.digest for intent in asked.intents] == asked_about


def test_a_yes_to_one_text_is_not_a_yes_to_another(store, rig, asked, base):
    asked.refuses = lambda intent: b"deed" in (intent.texts() or (b"", b""))[1]
    with pytest.raises(ActRefusedError):
        store.edit(NOTE, FACTS, PERSON, base=base)

    assert rig.text(NOTE) == TEXT.replace("thought", "deed")


@pytest.mark.parametrize("way", ["edit", "replace", "delete", "place over"])
def test_what_goes_on_changing_while_they_are_asked_is_left_alone(store, rig, asked, way):
    rig.put(NOTE, TEXT)

    def act(_intent: WriteIntent) -> None:
        (rig.vault / NOTE).write_text(f"{TEXT}{len(asked.intents)}\n")

    asked.act = act
    with pytest.raises(StorageFailedError, match="each time"):
        WAYS[way](store, rig)

    assert rig.text(NOTE) == f"{TEXT}{len(asked.intents)}\n"
    assert len(asked.intents) == 20


def test_a_file_made_while_they_were_asked_stays_and_one_gone_stays_away(store, rig, asked):
    asked.act = lambda _intent: rig.put(NOTE, "mine\n")
    with pytest.raises(ConflictError):
        store.create(NOTE, b"yours\n", PERSON)
    assert rig.text(NOTE) == "mine\n"

    rig.put(NOTE, TEXT)
    asked.act = lambda _intent: (rig.vault / NOTE).unlink()
    with pytest.raises(NotFoundError):
        store.edit(NOTE, FACTS, PERSON)
    assert not (rig.vault / NOTE).exists()


def test_taking_a_write_back_is_asked_about_too(store, rig, asked):
    rig.put(NOTE, TEXT)
    store.edit(NOTE, FACTS, PERSON)
    (write,) = rig.history.writes_of(NOTE)
    asked.refuses = lambda _intent: True
    with pytest.raises(ActRefusedError):
        revert(write, store, PERSON)

    assert rig.text(NOTE) == NEW


def test_what_a_program_wrote_too_late_is_saved_even_if_a_hook_objects(store, rig, asked):
    rig.put(NOTE, TEXT)
    with (rig.vault / NOTE).open("r+b") as late:
        asked.is_asked = False
        store.replace(NOTE, NEW.encode(), PERSON)
        asked.is_asked, asked.refuses = True, lambda _intent: True
        late.write(TEXT.replace("thought", "deed!!!").encode())
        late.truncate()
    for _ in range(2):
        rescue(store, NOW)

    assert rig.text(NOTE) == NEW.replace("thought", "deed!!!")
    assert asked.intents == []
    with pytest.raises(ActRefusedError):
        store.edit(NOTE, AppendToSection(section="Facts", content="more"), PERSON)


def test_while_one_thread_rescues_another_is_asked_all_the_same(store, rig, asked):
    rig.put(NOTE, TEXT)
    asked.refuses = lambda _intent: True
    refused: list[bool] = []

    def write() -> None:
        try:
            store.edit(NOTE, FACTS, PERSON)
        except ActRefusedError:
            refused.append(True)

    writer = threading.Thread(target=write)
    with store.late_files():
        writer.start()
    writer.join(60)

    assert refused == [True]
