"""Paper: what a module is given, kept in dicts.

For tests of what needs no disk and no permissions.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from parachuted.errors import ConflictError, NotFoundError
from parachuted.keys.path_globs import PathGlob
from parachuted.modules import CurrentCall, Module
from parachuted.modules.hosting.loading import load_class, unload
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.manifest import Manifest, read_manifest

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


class FakeState:
    """JSON by key."""

    def __init__(self) -> None:
        self.kept: dict[str, object] = {}

    async def get(self, key: str, default: object = None) -> object:
        return self.kept.get(key, default)

    async def put(self, key: str, value: object) -> None:
        self.kept[key] = value


class FakeServices:
    """Services on paper.

    `published` and `asked` are what the module said and whom it asked; `others` are interfaces that
    there are.
    """

    def __init__(self, name: str = "daily", config: Mapping[str, object] | None = None) -> None:
        self.name, self.config = name, config or {}
        self.log = logging.getLogger(f"parachuted.modules.{name}")
        self.vault, self.state = FakeVault(), FakeState()
        self.published: list[tuple[str, Mapping[str, object]]] = []
        self.asked: list[tuple[str, str, Mapping[str, object]]] = []
        self.others: dict[str, object] = {}
        self.has_model = True
        self.folders = None
        self.schedules = self.activity = self.runs = None
        self.data_folder = Path("/nowhere")
        self.current_call = CurrentCall(run=None, origin="you")

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        self.published.append((event, data))

    def get_interface(self, name: str) -> object | None:
        return self.others.get(name)

    async def run_agent(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        self.asked.append((agent, prompt, options))
        return f"{agent} says yes"

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str:
        del reasoning, base
        self.asked.append((action, path, payload))
        return "s0000000001"


@contextlib.contextmanager
def loaded(folder: Path) -> Iterator[tuple[type[Module], Manifest]]:
    """The class of a module, loaded as the daemon does it, and its manifest."""
    tree = read_tree(folder)
    manifest = read_manifest(
        (folder / "manifest.yaml").read_bytes(), files=[file.path for file in tree.files]
    )
    try:
        yield load_class(folder, manifest.name, manifest, tree=tree.digest), manifest
    finally:
        unload(manifest.name, tree.digest)
