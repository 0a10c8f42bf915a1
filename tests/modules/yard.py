"""Yard: a vault with its one writer and its indexes, as a daemon has them, and what modules are given of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from parachuted.events.audit import AuditEvent, Caller
from parachuted.modules.access import BoundedVault, VaultParts
from parachuted.modules.bounds import Bounds
from parachuted.modules.cause import causes_at
from parachuted.vault import Author, Entry, History, Objects, Store, VaultRoot, digest_of
from tests.search.library import Library

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class Told:
    """An audit that remembers."""

    refusal: str | None = None

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


class Yard:
    """`save` is a person's; `bounded` is what a module gets."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.vault = folder, folder / "vault"
        self.vault.mkdir(exist_ok=True)
        self.audit = Told()
        self.callers: list[Caller | None] = []
        self.noticed: list[str] = []
        self.root = VaultRoot(self.vault)
        self.objects = Objects(folder / "objects")
        self.history = History(folder / "history.db")
        self.store = Store(self.root, self.objects, self.history, self.clock)
        self.library = Library(self.vault, folder / "search.db")
        self.library.start()
        self.parts = VaultParts(
            root=self.root, store=self.store, index=self.library.index, search=self.library.search, notice=self.notice, audit=self.audit
        )

    def clock(self) -> datetime:
        return NOON

    def save(self, path: str, text: str | bytes) -> None:
        self.library.save(path, text)

    def text(self, path: str) -> str:
        return (self.vault / path).read_bytes().decode()

    def link(self, path: str, to: str) -> None:
        """`to` as it stands in the link."""
        place = self.vault / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(to)

    async def notice(self, paths: Iterable[str]) -> None:
        """As the noticer: the index, and search, know what is there now."""
        for path in paths:
            self.noticed.append(path)
            file, entry = self.vault / path, None
            with contextlib.suppress(OSError):
                entry = Entry.of(file.stat(), digest_of(file.read_bytes()))
            self.library.index.set(path, entry)
            self.library.search.follow(path, entry)

    def author(self) -> Author:
        return Author(by="module:daily", causes=causes_at(NOON))

    def bounded(self, *, read: Iterable[str] = (), write: Iterable[str] = (), **more: Callable[..., None]) -> BoundedVault:
        bounds = Bounds.of_module("daily", read=read, write=write)
        return BoundedVault(self.parts, bounds, self.author, Caller("module", "daily", ""), **more)

    def close(self) -> None:
        self.library.search.close()
        self.store.close()
        self.history.close()
        self.objects.close()
