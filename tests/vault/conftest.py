"""A shelf: the vault with its store, objects and history, all real, closed at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.vault.author import Author
from parachuted.vault.objects import ObjectStore
from parachuted.vault.recovery import Recovery
from parachuted.vault.root import VaultRoot
from parachuted.vault.scanner import ScanFindings
from parachuted.vault.store import Store
from parachuted.vault.write_journal import WriteJournal
from parachuted.vault.write_records import Write

NOW = datetime(2026, 11, 21, 23, 15, 2, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class StoreRig:
    """The parts that a write goes through."""

    vault: Path
    root: VaultRoot
    objects: ObjectStore
    history: WriteJournal
    store: Store
    agent: Author
    now: datetime

    def put(self, path: str, text: str | bytes) -> str:
        """Save a file as a person would, and keep its text as one that was read there; returns the
        digest.
        """
        data = text if isinstance(text, bytes) else text.encode()
        file = self.vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return self.store.bases.keep(path, data)

    def intend(
        self, path: str, *, before: str | None, after: str | None, temporary: str = ".t"
    ) -> Write:
        """Record a write by digests whose end was never recorded."""
        return self.history.intend(
            Write(
                at=self.now,
                path=path,
                author=self.agent,
                operation="ReplaceAll",
                before=before,
                after=after,
                temporary=temporary,
            )
        )

    @property
    def recovery(self) -> Recovery:
        return Recovery(root=self.root, objects=self.objects, history=self.history, now=self.now)

    def text(self, path: str) -> str:
        return (self.vault / path).read_text()

    def names(self) -> list[str]:
        """Every file of the vault, hidden ones too."""
        return sorted(
            os.path.relpath(Path(folder) / name, self.vault)
            for folder, _, names in os.walk(self.vault)
            for name in names
        )


@pytest.fixture
def rig(vault: Path, home: Path) -> Iterator[StoreRig]:
    root, objects, history = (
        VaultRoot(vault),
        ObjectStore(home / "objects"),
        WriteJournal(home / "history.db"),
    )
    store = Store(root, objects, history, lambda: NOW)
    agent = Author(by="agent:watch", run="r-1", causes=("c-1", "c-2"))
    yield StoreRig(
        vault=vault, root=root, objects=objects, history=history, store=store, agent=agent, now=NOW
    )
    store.close()
    history.close()
    objects.close()


@pytest.fixture
def folder(vault: Path) -> Iterator[int]:
    """A descriptor of the vault's own folder."""
    descriptor = os.open(vault, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def kinds(scan: ScanFindings) -> dict[str, str]:
    """What a scan saw, by path: new, changed or gone."""
    return {
        seen.path: "gone" if seen.new is None else "new" if seen.old is None else "changed"
        for seen in scan.seen
    }


def fill(vault: Path, *paths: str) -> None:
    """Files that each hold their own path."""
    for path in paths:
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(path, errors="surrogateescape")
