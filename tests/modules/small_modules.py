"""Players: small modules written on the spot, approved as they are, and services that remember what
was asked of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
import tempfile
import textwrap
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parachuted.modules import CurrentCall, Module
from parachuted.modules.hosting.in_process import load_class, unload
from parachuted.modules.module_state import make_data_folder
from parachuted.modules.outside_folders import FolderAccess
from parachuted.modules.registry.approved import ApprovedModule, TrustLevel
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.manifest import FILE, Manifest, read_manifest
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.modules.services import ActivityAccess, RunAccess
from parachuted.runs.granted_vault import GrantedVault

EXAMPLES = Path(__file__).resolve().parent / "examples"
HEAD = """
import asyncio
from parachuted.modules import Body, Module, Response
from parachuted.modules import event, interface, mcp_tool, route, schedule
"""


def write_module(
    folder: Path, body: str, *, name: str = "daily", manifest: str = "", **files: str
) -> Path:
    """A folder with a manifest and a module.py whose class has that body.

    `files` are others, by their stem. The manifest lists the tools, events and schedules that
    decorators in the body name, where `manifest` has no such field.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = f"name: {name}\nversion: 1.0.0\nmodule: module.py\n{textwrap.dedent(manifest)}"
    for key, decorator in (("mcp_tools", "mcp_tool"), ("hooks", "event")):
        names = re.findall(rf"@{decorator}\(['\"]([\w.-]+)['\"]", body)
        if names and f"{key}:" not in text.partition("permissions:")[0]:
            text += f"\n{key}: [{', '.join(dict.fromkeys(names))}]\n"
    timings = re.findall(r"@schedule\((.+)\)", body)
    if timings and "schedules:" not in text:
        text += f"\nschedules: [{', '.join(f'{{{_yaml(timing)}}}' for timing in timings)}]\n"
    (folder / FILE).write_text(text)
    code = (
        f"{HEAD}\nclass Made(Module):\n    'One.'\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    )
    (folder / "module.py").write_text(code)
    for stem, text in files.items():
        (folder / f"{stem}.py").write_text(textwrap.dedent(text))
    return folder


def _yaml(arguments: str) -> str:
    return re.sub(r"(\w+)=", r"\1: ", arguments)


def approve(folder: Path, *, trust: TrustLevel = "trusted", **more: Any) -> ApprovedModule:
    """What the folder holds now, as if a person had approved it."""
    tree = read_tree(folder).digest
    manifest = read_manifest((folder / FILE).read_text())
    return ApprovedModule(
        name=manifest.name,
        copy=folder,
        digest=tree,
        tree=tree,
        manifest=manifest,
        trust=trust,
        **more,
    )


@contextlib.contextmanager
def loaded(folder: Path) -> Iterator[tuple[type[Module], Manifest]]:
    """The class of a module, loaded as the daemon does it, and its manifest."""
    approved = approve(folder)
    try:
        yield load_class(approved), approved.manifest
    finally:
        unload(approved)


class Memory:
    """A module's state, in a dict."""

    def __init__(self) -> None:
        self.kept: dict[str, object] = {}

    async def get(self, key: str, default: object = None) -> object:
        return self.kept.get(key, default)

    async def put(self, key: str, value: object) -> None:
        self.kept[key] = value

    async def delete(self, key: str) -> None:
        self.kept.pop(key, None)

    async def keys(self) -> list[str]:
        return sorted(self.kept)


@dataclass(kw_only=True)
class StubServices:
    """Services by hand: `published` and `asked` are what the module said."""

    name: str = "daily"
    config: Mapping[str, object] = field(default_factory=dict)
    vault: GrantedVault | None = None
    state: Memory = field(default_factory=Memory)
    published: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    tell: Callable[[str, Mapping[str, object]], None] | None = None
    find: Callable[[str], object | None] | None = None
    has_model: bool = True
    folders: FolderAccess | None = None
    schedules: ScheduleAccess | None = None
    activity: ActivityAccess | None = None
    runs: RunAccess | None = None
    data: Path | None = None
    current_call: CurrentCall = field(default_factory=lambda: CurrentCall(run=None))

    @property
    def data_folder(self) -> Path:
        if self.data is None:
            self.data = Path(tempfile.mkdtemp(prefix="parachute-data-"))
            weakref.finalize(self, shutil.rmtree, self.data, ignore_errors=True)
        return make_data_folder(self.data, self.name)

    @property
    def log(self) -> logging.Logger:
        return logging.getLogger(f"parachuted.modules.{self.name}")

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        self.published.append((event, data))
        if self.tell is not None:
            self.tell(event, data)

    def get_interface(self, name: str) -> object | None:
        return self.find(name) if self.find is not None else None

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str:
        del payload, base
        self.asked.append((action, path, reasoning))
        return "s0000000001"


async def until(condition: Callable[[], object], limit_s: float = 120) -> None:
    """Wait for it; fail after the limit."""
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.005)
