"""The services of one module, with its rights, wherever its code runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from parachuted.access.authority import Authority, current
from parachuted.access.origin import Origin
from parachuted.audit.events import AuditCaller
from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.modules.hosting.interfaces import CallingModule as InterfaceCaller
from parachuted.modules.hosting.module_agents import ModuleAgents
from parachuted.modules.hosting.module_state import ModuleState
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.services import Services
from parachuted.runs.agent_parts import AgentParts
from parachuted.runs.bounded_vault import BoundedVault, VaultParts
from parachuted.runs.bounds import ModuleBounds
from parachuted.suggestions import Proposal
from parachuted.suggestions.suggestion import ACTIONS
from parachuted.vault import Author, VaultPath, WriteResult, printable

_LOGGED_AS = "parachuted.modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleContextSources:
    """What the services of all modules are built from.

    `state` is the folder in which each module has its own. `publish` publishes a module's event and
    refuses other modules' names; `wrote` is called for each write, with the authority; `interface`
    finds an interface for a caller.
    """

    vault: VaultParts
    agents: AgentParts
    state: Path
    clock: Callable[[], datetime]
    publish: Callable[[str, str, Mapping[str, object], Authority], None]
    wrote: Callable[[WriteResult, Authority], None]
    interface: Callable[[str, InterfaceCaller], object | None]


class ModuleContext:
    """The `Services` of one module."""

    def __init__(
        self,
        approved: ApprovedModule,
        sources: ModuleContextSources,
        authority: Callable[[], Authority] = current,
    ) -> None:
        """`approved` says who it is and what it may; nothing of the module's folder or class is
        asked. `authority` finds on whose behalf its code works now.
        """
        name = approved.name
        self.name = name
        self.config: Mapping[str, object] = MappingProxyType(dict(approved.config))
        self.log = logging.getLogger(f"{_LOGGED_AS}.{name}")
        permissions = approved.manifest.permissions
        bounds = ModuleBounds.of_module(name, read=permissions.read, write=permissions.write)
        self._is_strange = approved.trust == "untrusted"
        own: Origin = "imported" if self._is_strange else "agent"
        self.vault = BoundedVault(
            sources.vault,
            bounds,
            lambda: Author(by=f"module:{name}", causes=authority().causes_at(sources.clock())),
            AuditCaller("module", name, ""),
            wrote=lambda written: sources.wrote(written, authority()),
            authority=authority,
            origins=sources.agents.origins,
            own=own,
        )
        self.state = ModuleState(sources.state / name, authority)
        self._agents = ModuleAgents(sources.agents, sources.vault, approved, bounds)
        self._sources, self._bounds, self._requires = (
            sources,
            bounds,
            approved.manifest.optional_requires,
        )
        self._authority = authority

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        """Publish an event of its own.

        Its causes travel with it, so that loops halt, and so does its taint.
        """
        if event.partition(".")[0] != self.name:
            raise ActRefusedError(
                f"the module {self.name} may publish events whose name begins with {self.name}. "
                f"and not {event[:80]}"
            )
        authority = self._acting().forked()
        if self._is_strange:
            authority.taint.read(f"the event {event[:80]}, of the module {self.name}", "imported")
        told = {**data, "causes": list(authority.causes)} if authority.causes else data
        self._sources.publish(self.name, event, told, authority)

    def get_interface(self, name: str) -> object | None:
        """That interface, or None while no module provides it."""
        self._acting()
        if name not in self._requires:
            raise ActRefusedError(
                f"the module {self.name} may not use {name[:80]}: its manifest does not name it "
                "in optional_requires"
            )
        return self._sources.interface(
            name, InterfaceCaller(name=self.name, own=self._acting, delegated=self._delegated)
        )

    async def run_agent(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        """Let one of its agents answer."""
        return await self._agents.run(agent, prompt, options, self._acting())

    def _acting(self) -> Authority:
        """The authority that its code has now.

        Raises ActRefusedError when its caller no longer has that.
        """
        authority = self._authority()
        authority.check()
        return authority

    def _delegated(self, authority: Authority) -> Authority:
        """The authority that the other module acts with: if this module is not trusted, limited to
        its own rights.
        """
        delegated = authority.forked()
        if not self._is_strange:
            return delegated
        delegated.taint.read(f"a call of the module {self.name}", "imported")
        return delegated.narrowed(self._bounds.reads, self._bounds.writes)

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str:
        """Propose a change to a person.

        A file that it may not read is reported as missing.
        """
        suggestions, target, authority = (
            self._sources.agents.suggestions,
            VaultPath.parse(path),
            self._acting(),
        )
        if suggestions is None:
            raise ActRefusedError("suggestions are not accepted here")
        if action not in ACTIONS:
            raise EditRefusedError(f"{action[:80]!r} is none of {', '.join(ACTIONS)}")
        if not self._bounds.limited(authority.reads, authority.writes).may_read(target):
            raise NotFoundError(
                f"{printable(target)} is not among the files that the module {self.name} may read"
            )
        origin: Origin = (
            authority.taint.origin if authority.taint else "bot" if self._is_strange else "agent"
        )
        suggestion = await suggestions.propose(
            Proposal(
                source_agent=f"module:{self.name}",
                action=action,
                path=target,
                payload=payload,
                reasoning=reasoning,
                base=base,
                run=next(iter(authority.runs), None),
                causes=authority.causes,
                origin=origin,
            )
        )
        return suggestion.id


def make_services(approved: ApprovedModule, sources: ModuleContextSources) -> Services:
    """The services of that module."""
    return ModuleContext(approved, sources)
