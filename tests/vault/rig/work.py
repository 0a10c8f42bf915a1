"""Work: a small vault, every operation of the writer on it, and what must be true of the vault
whatever interrupts one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from parachuted.vault import (
    AppendToSection,
    Author,
    DeleteKey,
    IncomingFile,
    ObjectStore,
    Recovery,
    ReplaceSection,
    SetFrontmatterKey,
    Store,
    VaultPath,
    VaultRoot,
    WriteJournal,
    digest_of,
)
from parachuted.vault.swap import TEMPORARY_PREFIX

NOTE = b"""---
title: Plan
status: open
---
# Plan

Words before.

## Facts

- one
- two

## Current Focus

Ship it.

## History

- 2025: began
"""
FILES = {
    "note.md": NOTE,
    "other.md": b"# Other\n\nuntouched\n",
    "Sub/inner.md": b"# Inner\r\n\r\n## Facts\r\n\r\nx\r\n",
}
ARRIVED = bytes(range(256)) * 64
ME = Author(by="curator", run="r-1", causes=("c-1",))
Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A vault's parts, opened as a daemon does."""

    root: VaultRoot
    objects: ObjectStore
    history: WriteJournal
    store: Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing the writer does.

    `prepare` is done before, undisturbed. `exchanges`: it goes by a temporary name until it is
    done.
    """

    name: str
    act: Callable[[Store], object]
    prepare: Callable[[Store], object] = lambda _store: None
    exchanges: bool = True


@dataclass(frozen=True, slots=True)
class TrialFolder:
    folder: Path

    @property
    def vault(self) -> Path:
        return self.folder / "vault"

    def files(self) -> dict[str, bytes]:
        """What every file of the vault holds; of a link, where it leads."""
        found = (path for path in self.vault.rglob("*") if path.is_symlink() or path.is_file())
        return {path.relative_to(self.vault).as_posix(): _content(path) for path in found}

    @contextlib.contextmanager
    def opened(self) -> Iterator[Opened]:
        root, objects = VaultRoot(self.vault), ObjectStore(self.folder / "state" / "objects")
        history = WriteJournal(self.folder / "state" / "history.db")
        store = Store(root, objects, history, now)
        yield Opened(root=root, objects=objects, history=history, store=store)
        store.close()
        history.close()
        objects.close()

    def made(self, operation: Operation) -> TrialFolder:
        """The same, filled with the files and made ready for the operation."""
        for name, data in FILES.items():
            path = self.vault / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (self.vault / "note.md").chmod(0o640)
        with self.opened() as opened:
            operation.prepare(opened.store)
        return self

    def copied(self, to: Path) -> TrialFolder:
        shutil.copytree(self.folder, to, symlinks=True)
        return TrialFolder(to)


def now() -> datetime:
    return datetime(2026, 11, 21, 23, 15, 2, tzinfo=UTC)


def _content(path: Path) -> bytes:
    return os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()


def _path(text: str) -> VaultPath:
    return VaultPath.parse(text)


def _read_then_saved(store: Store) -> None:
    """An agent has read the note; a person has changed another section since."""
    store.read(_path("note.md"), keep=True)
    store.replace(
        _path("note.md"), NOTE.replace(b"Ship it.", b"Ship it tomorrow."), Author(by="person")
    )


def _replace_read(store: Store) -> object:
    return store.replace(
        _path("note.md"), NOTE.replace(b"- two", b"- two\n- three"), ME, base=digest_of(NOTE)
    )


def arrived(store: Store) -> None:
    """A content has come in, as an upload does."""
    with IncomingFile(store.objects) as incoming:
        incoming.write(ARRIVED)
        incoming.keep()


OPERATIONS = (
    Operation(
        name="replace-section",
        act=lambda store: store.edit(
            _path("note.md"), ReplaceSection(section="Facts", content="- new"), ME
        ),
    ),
    Operation(
        name="append",
        act=lambda store: store.edit(
            _path("note.md"), AppendToSection(section="History", content="- 2026: on"), ME
        ),
    ),
    Operation(
        name="set-key",
        act=lambda store: store.edit(
            _path("note.md"), SetFrontmatterKey(key="status", value="done"), ME
        ),
    ),
    Operation(
        name="delete-key",
        act=lambda store: store.edit(_path("note.md"), DeleteKey(key="status"), ME),
    ),
    Operation(
        name="replace-whole", act=lambda store: store.replace(_path("note.md"), NOTE[:40], ME)
    ),
    Operation(name="merge", prepare=_read_then_saved, act=_replace_read),
    Operation(
        name="create",
        exchanges=False,
        act=lambda store: store.create(_path("new.md"), b"# New\n", ME),
    ),
    Operation(
        name="create-in-new-folder",
        exchanges=False,
        act=lambda store: store.create(_path("A/B/new.md"), b"# New\n", ME),
    ),
    Operation(
        name="move",
        exchanges=False,
        act=lambda store: store.move(_path("note.md"), _path("Sub/moved.md"), ME),
    ),
    Operation(
        name="move-to-new-folder",
        exchanges=False,
        act=lambda store: store.move(_path("Sub/inner.md"), _path("C/inner.md"), ME),
    ),
    Operation(
        name="place",
        prepare=arrived,
        act=lambda store: store.place(_path("note.md"), digest_of(ARRIVED), ME),
    ),
    Operation(
        name="place-new",
        exchanges=False,
        prepare=arrived,
        act=lambda store: store.place(_path("D/new"), digest_of(ARRIVED), ME),
    ),
    Operation(name="delete", act=lambda store: store.delete(_path("note.md"), ME)),
)


def complaints(
    place: TrialFolder, operation: Operation, old: Files, new: Files, *allowed: Files
) -> list[str]:
    """What is wrong after an interrupted operation and a new start: nothing may be.

    `allowed`: what the files may be, if not both.
    """
    with place.opened() as opened:
        recovery = Recovery(
            root=opened.root, objects=opened.objects, history=opened.history, now=now()
        )
        wrong = [f"recovery said {said}" for said in recovery.run()]
        files = place.files()
        if files not in (allowed or (old, new)):
            which = "old" if files == old else "new" if files == new else "neither old nor new"
            wrong.append(
                f"{which}: {dict(files.items() - old.items())}, gone {set(old) - set(files)}"
            )
        wrong += left_behind(place) + _wrong_history(opened, is_new=files == new)
        wrong += [
            f"left behind: {path}"
            for path in (place.folder / "state" / "objects" / "unfinished").glob("*")
        ]
        if files == old:
            operation.act(opened.store)
            wrong += [] if place.files() == new else ["the retry did not do it"]
    return wrong


def left_behind(place: TrialFolder) -> list[str]:
    return [f"left behind: {path.name}" for path in place.vault.rglob(f"{TEMPORARY_PREFIX}*")]


def _wrong_history(opened: Opened, *, is_new: bool) -> list[str]:
    wrong = [f"still intended: {write}" for write in opened.history.intended()]
    writes = opened.history.writes_by("r-1")
    if bool(writes) != is_new:
        wrong.append(
            f"the disk is {'new' if is_new else 'old'}, the history says "
            f"{[(one.path, one.state) for one in writes]}"
        )
    digests = {
        digest for write in writes for digest in (write.before, write.after) if digest is not None
    }
    return wrong + [
        f"the text {digest[:8]} is not kept"
        for digest in digests
        if opened.objects.get(digest) is None
    ]
