"""Paper: what a module is given, kept in dicts.

For tests of what needs no disk and no permissions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from parachuted.errors import ConflictError, NotFoundError
from parachuted.keys.path_globs import PathGlob
from parachuted.modules import Module
from parachuted.modules.hosting.loading import load_class, unload
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.manifest import Manifest, read_manifest
from tests.modules.small_modules import StubServices

EXAMPLES = Path(__file__).resolve().parent / "examples"


class FakeVault:
    """Notes by path."""

    def __init__(self) -> None:
        self.notes: dict[str, str] = {}
        self.keys: dict[tuple[str, str], object] = {}

    async def read(self, path: str) -> str:
        if path not in self.notes:
            raise NotFoundError
        return self.notes[path]

    async def exists(self, path: str) -> bool:
        return path in self.notes

    async def list(self, pattern: str = "**") -> list[str]:
        return sorted(filter(PathGlob(pattern).matches, self.notes))

    async def create(self, path: str, text: str) -> str:
        if path in self.notes:
            raise ConflictError(base=b"", ours=b"", theirs=b"")
        self.notes[path] = text
        return "digest"

    async def append(self, path: str, section: str, text: str) -> str:
        assert f"## {section}" in self.notes[path]
        self.notes[path] += f"{text}\n"
        return "digest"

    async def set_key(self, path: str, key: str, value: object) -> str:
        self.keys[path, key] = value
        return "digest"


def fake_services(name: str = "daily") -> StubServices:
    """Services on paper, with a vault in dicts."""
    return StubServices(name=name, vault=FakeVault())


@contextlib.contextmanager
def loaded(folder: Path) -> Iterator[tuple[type[Module], Manifest]]:
    """The class of a module, loaded as the daemon does it, and its manifest."""
    tree = read_tree(folder)
    manifest = read_manifest((folder / "manifest.yaml").read_bytes(), files=tree.files)
    try:
        yield load_class(folder, manifest.name, manifest, tree=tree.digest), manifest
    finally:
        unload(manifest.name, tree.digest)
