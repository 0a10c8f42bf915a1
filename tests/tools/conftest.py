"""Tools: a vault with its writer and its history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from parachuted.vault import ObjectStore, Store, VaultRoot, WriteJournal

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
OWN = """\
---
watch:
  - "a"
---
# Garden

> What grows.

## Facts

- beans

## Current Focus

- dig

### This week

- sow

## History

- 2025-12-31: begun
"""


@dataclass
class ToolsRig:
    folder: Path
    now: datetime = NOON

    def __post_init__(self) -> None:
        self.vault = self.folder / "vault"
        self.vault.mkdir(exist_ok=True)
        self.root = VaultRoot(self.vault)
        self.objects = ObjectStore(self.folder / "objects")
        self.history = WriteJournal(self.folder / "history.db")
        self.store = Store(self.root, self.objects, self.history, lambda: self.now)

    def save(self, path: str, text: str | bytes) -> None:
        place = self.vault / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)

    def text(self, path: str) -> str:
        return (self.vault / path).read_bytes().decode()

    def digest(self) -> str:
        whole = sha256()
        for path in sorted(self.vault.rglob("*")):
            data = path.read_bytes() if path.is_file() else b""
            whole.update(repr((path.relative_to(self.vault), path.is_symlink(), data)).encode())
        return whole.hexdigest()

    def close(self) -> None:
        self.store.close()
        self.history.close()
        self.objects.close()


@pytest.fixture
def tools_rig(tmp_path: Path) -> Iterator[ToolsRig]:
    tools_rig = ToolsRig(folder=tmp_path)
    tools_rig.save("g/AGENTS.md", OWN)
    tools_rig.save("a/AGENTS.md", "# A\n\n> All about A.\n\n## Facts\n\n- one\n")
    yield tools_rig
    tools_rig.close()
