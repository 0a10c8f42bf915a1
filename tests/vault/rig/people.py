"""People: what a person's programs do to a note between two calls of the writer, and what may then
be missing: nothing.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from parachuted.vault import (
    AppendToSection,
    DeleteKey,
    ReplaceSection,
    SetFrontmatterKey,
    Store,
    VaultPath,
    digest_of,
)
from tests.vault.rig.work import FILES, ME, NOTE, Opened, Operation, TrialFolder

_NOTE, _NEW, _DEEP = VaultPath("note.md"), VaultPath("new.md"), VaultPath("A/B/new.md")
_BASE = digest_of(NOTE)

PERSONAL = b"Ship it on Friday, says a person."
DISJOINT = NOTE.replace(b"Ship it.", PERSONAL)
CLASHING = (
    NOTE.replace(b"- one\n- two", b"- one, says a person")
    .replace(b"status: open", b"status: closed by a person")
    .replace(b"- 2025: began", b"- person")
)
SHORT = b"# All new, says a person\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """One way to save; `text` is what the person then believes is safe, None where the note is
    taken away.

    `is_whole`: it is all that the file held after it. `is_late`: into a file that was opened, by
    `begin`, before the writer's first call.
    """

    name: str
    act: Callable[[Path], None]
    text: bytes | None
    is_whole: bool = True
    begin: Callable[[Path], None] = lambda _note: None
    end: Callable[[], None] = lambda: None
    is_late: bool = False


def _renamed_over(data: bytes) -> Callable[[Path], None]:
    def act(note: Path) -> None:
        note.parent.mkdir(parents=True, exist_ok=True)
        beside = note.with_name("note.md.swp~")
        beside.write_bytes(data)
        beside.replace(note)

    return act


def _in_place(data: bytes) -> Callable[[Path], None]:
    def act(note: Path) -> None:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_bytes(data)

    return act


def _appended(note: Path) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    with note.open("ab") as file:
        file.write(b"\nAdded, says a person.\n")


def _replaced_by_link(note: Path) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    note.unlink(missing_ok=True)
    note.symlink_to("other.md")


def _replaced_by_folder(note: Path) -> None:
    note.unlink(missing_ok=True)
    note.mkdir(parents=True)
    (note / "inside.md").write_bytes(SHORT)


def _deleted(note: Path) -> None:
    note.unlink(missing_ok=True)


class LateProgram:
    """A program that opens the note, writes all of it in place when the writer has already started,
    and closes it then or in the end.
    """

    def __init__(self, data: bytes, *, closes: bool) -> None:
        self._data, self._closes = data, closes
        self._file: io.FileIO | None = None

    def begin(self, note: Path) -> None:
        self._file = io.FileIO(note, "r+")

    def act(self, _note: Path) -> None:
        assert self._file is not None
        self._file.truncate(0)
        self._file.write(self._data)
        if self._closes:
            self._file.close()

    def end(self) -> None:
        assert self._file is not None
        self._file.close()


def _late(name: str, data: bytes, *, closes: bool) -> Save:
    program = LateProgram(data, closes=closes)
    return Save(
        name=name, act=program.act, text=data, begin=program.begin, end=program.end, is_late=True
    )


SAVES = (
    Save(name="renames a disjoint edit over it", act=_renamed_over(DISJOINT), text=DISJOINT),
    Save(name="renames a clashing edit over it", act=_renamed_over(CLASHING), text=CLASHING),
    Save(name="writes a disjoint edit in place", act=_in_place(DISJOINT), text=DISJOINT),
    Save(name="writes a clashing edit in place", act=_in_place(CLASHING), text=CLASHING),
    Save(name="writes something short in place", act=_in_place(SHORT), text=SHORT),
    Save(name="empties it", act=_in_place(b""), text=b""),
    Save(name="saves the same bytes", act=_renamed_over(NOTE), text=NOTE),
    Save(name="appends", is_whole=False, act=_appended, text=b"\nAdded, says a person.\n"),
    Save(name="deletes it", act=_deleted, text=None),
    Save(name="puts a link there", is_whole=False, act=_replaced_by_link, text=b"other.md"),
    Save(name="puts a folder there", is_whole=False, act=_replaced_by_folder, text=SHORT),
    _late("writes a disjoint edit late", DISJOINT, closes=False),
    _late("writes a disjoint edit late and closes", DISJOINT, closes=True),
    _late("writes a clashing edit late", CLASHING, closes=False),
    _late("writes something short late and closes", SHORT, closes=True),
)


OPERATIONS = (
    Operation(
        name="replace-section",
        act=lambda store: store.edit(
            _NOTE, ReplaceSection(section="Facts", content="- agent's"), ME, base=_BASE
        ),
    ),
    Operation(
        name="append",
        act=lambda store: store.edit(
            _NOTE, AppendToSection(section="History", content="- agent's"), ME, base=_BASE
        ),
    ),
    Operation(
        name="set-key",
        act=lambda store: store.edit(
            _NOTE, SetFrontmatterKey(key="status", value="agent's"), ME, base=_BASE
        ),
    ),
    Operation(
        name="delete-key",
        act=lambda store: store.edit(_NOTE, DeleteKey(key="status"), ME, base=_BASE),
    ),
    Operation(
        name="replace-whole",
        act=lambda store: store.replace(
            _NOTE, NOTE.replace(b"- two", b"- agent's"), ME, base=_BASE
        ),
    ),
    Operation(name="create", act=lambda store: store.create(_NEW, b"# New\n\nagent's\n", ME)),
    Operation(
        name="create-in-new-folder",
        act=lambda store: store.create(_DEEP, b"# New\n\nagent's\n", ME),
    ),
    Operation(
        name="move", act=lambda store: store.move(_NOTE, VaultPath("Sub/moved.md"), ME, base=_BASE)
    ),
    Operation(name="delete", act=lambda store: store.delete(_NOTE, ME, base=_BASE)),
)


def subject(operation: Operation) -> VaultPath:
    """The note that the person saves while that operation goes on."""
    return {"create": _NEW, "create-in-new-folder": _DEEP}.get(operation.name, _NOTE)


def prepare(store: Store) -> None:
    store.read(_NOTE, keep=True)


def missing(place: TrialFolder, opened: Opened, operation: Operation, save: Save) -> list[str]:
    """What the person misses after they saved while the operation went on."""
    files = place.files()
    if save.text is None:
        there = files.get(subject(operation))
        return [] if there is None else [f"it is there again: {there!r}"]
    wrong = []
    if not any(_has_all(data, save.text) for data in files.values()):
        wrong.append(f"not in any file: {save.text!r}, but {files}")
    if (
        save.is_whole
        and save.text not in files.values()
        and opened.objects.get(digest_of(save.text)) is None
    ):
        wrong.append(f"the text as it was saved is not kept: {save.text!r}")
    if files["other.md"] != FILES["other.md"]:
        wrong.append("another note was changed")
    return wrong


def both(place: TrialFolder, operation: Operation, save: Save) -> list[str]:
    """What is missing of two edits that went together: unless the person's came last and stands
    alone, both are there.
    """
    note = place.files().get(_NOTE, b"")
    if (
        save.text != DISJOINT
        or "create" in operation.name
        or operation.name in {"move", "delete"}
        or (note == save.text and not save.is_late)
    ):
        return []
    agents = b"status: open" not in note if operation.name == "delete-key" else b"agent's" in note
    return [] if agents and PERSONAL in note else [f"not both are there: {note!r}"]


def _has_all(data: bytes, text: bytes) -> bool:
    """Whether every line that the person added is there; an empty file is nothing but empty."""
    if not text:
        return not data
    known = NOTE.splitlines()
    return all(line in data for line in text.splitlines() if line not in known) and (
        text != NOTE or bool(data)
    )
