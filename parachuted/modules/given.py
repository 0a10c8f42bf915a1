"""Given: all that one module is given, put together. Its rights are in here, wherever its code runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.events.audit import Caller
from parachuted.modules.access import BoundedVault, VaultParts, limit
from parachuted.modules.agent_parts import AgentParts
from parachuted.modules.approved import Approved
from parachuted.modules.bounds import Bounds
from parachuted.modules.cause import carried, causes_at, runs_before
from parachuted.modules.module_agents import ModuleAgents
from parachuted.modules.module_state import ModuleState
from parachuted.modules.services import Services
from parachuted.suggestions import Proposal
from parachuted.suggestions.suggestion import ACTIONS
from parachuted.vault import Author, VaultPath, Written, printable

_LOGGED_AS = "parachuted.modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the services of all modules are made from. `state` is the folder in which each module has its own.

    `publish` tells an event of a module's, by the module's name, and refuses what is another's; `interface` finds who provides one.
    """

    vault: VaultParts
    agents: AgentParts
    state: Path
    clock: Callable[[], datetime]
    publish: Callable[[str, str, Mapping[str, object]], None]
    interface: Callable[[str], object | None]


class Given:
    """The `Services` of one module."""

    def __init__(self, approved: Approved, sources: Sources) -> None:
        """`approved` says who it is and what it may; nothing of the module's folder or class is asked."""
        name = approved.name
        self.name = name
        self.config: Mapping[str, object] = MappingProxyType(dict(approved.config))
        self.log = logging.getLogger(f"{_LOGGED_AS}.{name}")
        permissions = approved.manifest.permissions
        bounds = Bounds.of_module(name, read=permissions.read, write=permissions.write)
        self.vault = BoundedVault(
            sources.vault, bounds, lambda: Author(by=f"module:{name}", causes=causes_at(sources.clock())), Caller("module", name, ""),
            wrote=self._wrote,
        )  # fmt: skip
        self.state = ModuleState(sources.state / name)
        self._agents = ModuleAgents(sources.agents, sources.vault, approved, bounds)
        self._sources, self._bounds, self._is_strange = sources, bounds, approved.trust == "untrusted"

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        """Tell an event of its own. What led to it is told with it, so that what follows halts."""
        if event.partition(".")[0] != self.name:
            raise ActRefusedError(f"the module {self.name} may publish events whose name begins with {self.name}. and not {event[:80]}")
        causes = carried()
        told = {**data, "causes": list(causes)} if causes and "causes" not in data else data
        self._sources.publish(self.name, event, told)

    def get_interface(self, name: str) -> object | None:
        """Who provides that interface now, or None."""
        return self._sources.interface(name)

    async def run_agent(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        """Let one of its agents answer."""
        return await self._agents.run(agent, prompt, options)

    async def suggest(self, action: str, path: str, payload: Mapping[str, object], reasoning: str, base: str | None = None) -> str:
        """Put a change before a person. What it may not read it cannot suggest for, and is told no more than that there is none."""
        suggestions, target = self._sources.agents.suggestions, VaultPath.parse(path)
        if suggestions is None:
            raise ActRefusedError("nobody takes suggestions here")
        if action not in ACTIONS:
            raise EditRefusedError(f"{action[:80]!r} is none of {', '.join(ACTIONS)}")
        if not self._bounds.limited(limit()).may_read(target):
            raise NotFoundError(f"{printable(target)} is not among the files that the module {self.name} may read")
        suggestion = await suggestions.propose(
            Proposal(
                source_agent=f"module:{self.name}", action=action, path=target, payload=payload, reasoning=reasoning, base=base,
                run=next(iter(runs_before()), None), causes=carried(), origin="bot" if self._is_strange else "agent",
            )
        )  # fmt: skip
        return suggestion.id

    def _wrote(self, written: Written) -> None:
        """What a module writes that nobody trusts, no agent takes for its person's words."""
        origins = self._sources.agents.origins
        if self._is_strange and origins is not None:
            origins.wrote(written.path, written.after, "imported")


def make_services(approved: Approved, sources: Sources) -> Services:
    """What that module is given."""
    return Given(approved, sources)
