"""Yard: a vault with its one writer and its indexes, as a daemon has them, and what modules are
given of it.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parachuted.access.authority import NOBODY, Authority, current
from parachuted.agents import Backend, RunLimits
from parachuted.audit.events import AuditCaller, AuditEvent
from parachuted.events import Bus, Event
from parachuted.modules.hosting.module_context import ModuleContext, ModuleContextSources
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.manifest import read_manifest
from parachuted.runs.agent_parts import AgentParts
from parachuted.runs.bounded_vault import BoundedVault, VaultParts
from parachuted.runs.bounds import ModuleBounds
from parachuted.state import open_state
from parachuted.tasks import Budget, Causes, RunCountLimits
from parachuted.testing import ScriptedBackend
from parachuted.vault import Author, History, IndexEntry, ObjectStore, Store, VaultRoot, digest_of
from tests.search.search_rig import SearchRig

LIMITS = RunLimits(timeout_s=30, max_turns=10, max_cost_usd=0.5)
NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def acted_on() -> Authority:
    """That of the code which runs here; a test that says nothing of it acts as the module
    itself.
    """
    found = current()
    return Authority() if found is NOBODY else found


class Told:
    """An audit that remembers."""

    refusal: str | None = None

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


class ModuleRig:
    """`save` is a person's; `bounded` is what a module gets."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.vault = folder, folder / "vault"
        self.vault.mkdir(exist_ok=True)
        self.audit = Told()
        self.events: list[Event] = []
        self.published: list[tuple[str, str, dict[str, object]]] = []
        self.noticed: list[str] = []
        self.root = VaultRoot(self.vault)
        self.objects = ObjectStore(folder / "objects")
        self.history = History(folder / "history.db")
        self.store = Store(self.root, self.objects, self.history, self.clock)
        self.library = SearchRig(self.vault, folder / "search.db")
        self.library.start()
        self.parts = VaultParts(
            root=self.root,
            store=self.store,
            index=self.library.index,
            search=self.library.search,
            notice=self.notice,
            audit=self.audit,
        )

        self.state = open_state(folder / "state.journal")
        self.bus = Bus(self.clock)
        self.bus.listen(self.events.append)

    def clock(self) -> datetime:
        return NOON

    def agents(
        self,
        backend: Backend | None = None,
        *,
        runs: int = 100,
        runs_per_cause: int = 50,
        **more: Any,
    ) -> AgentParts:
        """What agents work with; `runs`: how many there may be in an hour."""
        budget = Budget(
            RunCountLimits(runs_per_hour=runs, runs_per_day=1_000, runs_per_cause=runs_per_cause),
            self.history,
            self.state,
            self.clock,
        )
        return AgentParts(
            backend=backend or ScriptedBackend(),
            model=None,
            limits=LIMITS,
            budget=budget,
            history=self.history,
            objects=self.objects,
            causes=Causes(self.state),
            bus=self.bus,
            clock=self.clock,
            user_home=self.folder / "person",
            audit=self.audit,
            **more,
        )

    def given(
        self,
        approved: ApprovedModule,
        agents: AgentParts | None = None,
        interfaces: dict[str, object] | None = None,
    ) -> ModuleContext:
        """What the module of that approval is given."""
        sources = ModuleContextSources(
            vault=self.parts,
            agents=agents or self.agents(),
            state=self.folder / "state/modules",
            clock=self.clock,
            publish=lambda module, event, data, _authority: self.published.append(
                (module, event, dict(data))
            ),
            wrote=lambda *_: None,
            interface=lambda name, _caller: (interfaces or {}).get(name),
        )
        return ModuleContext(approved, sources, acted_on)

    def approve(
        self,
        manifest: str,
        *,
        config: dict[str, object] | None = None,
        agents: dict[str, object] | None = None,
        **files: str,
    ) -> ApprovedModule:
        """A module of that manifest, approved; `agents` and `config` as modules.yaml has them,
        `files` by path, `__` for a slash.
        """
        head = "name: telegram-bot\nversion: 1.0.0\nmodule: module.py\n"
        copy = self.folder / "copy"
        for name, text in files.items():
            file = copy / f"{name.replace('__', '/')}.md"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return ApprovedModule(
            name="telegram-bot",
            copy=copy,
            digest="sha256:1",
            tree="sha256:2",
            manifest=read_manifest(head + textwrap.dedent(manifest)),
            trust="trusted",
            overrides=agents or {},
            config=config or {},
        )

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
                entry = IndexEntry.of(file.stat(), digest_of(file.read_bytes()))
            self.library.index.set(path, entry)
            self.library.search.follow(path, entry)

    def author(self) -> Author:
        return Author(by="module:daily", causes=acted_on().causes_at(NOON))

    def bounded(
        self, *, read: Iterable[str] = (), write: Iterable[str] = (), **more: Callable[..., None]
    ) -> BoundedVault:
        bounds = ModuleBounds.of_module("daily", read=read, write=write)
        return BoundedVault(
            self.parts,
            bounds,
            self.author,
            AuditCaller("module", "daily", ""),
            authority=acted_on,
            **more,
        )

    def close(self) -> None:
        self.library.search.close()
        self.state.close()
        self.store.close()
        self.history.close()
        self.objects.close()
