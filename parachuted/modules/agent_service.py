"""Agent desk: where a person asks for an agent by its name, over HTTP, at a terminal or in a
chat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parachuted.access.authority import Authority, Entry
from parachuted.errors import NotFoundError
from parachuted.modules.hosting.module_agents import ModuleAgents
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.runs.agent_parts import AgentParts
from parachuted.runs.agent_plan import read_options
from parachuted.runs.agent_runner import AgentRunner
from parachuted.runs.bounded_vault import VaultParts
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.run_request import AgentDefinition, RunReport, RunRequest


class AgentService:
    """All agents that can be asked for.

    `approved` finds a module that may run, `core` are the daemon's own agents by name.
    """

    def __init__(
        self,
        parts: AgentParts,
        vault: VaultParts,
        approved: Callable[[str], ApprovedModule | None],
        core: Mapping[str, AgentDefinition],
    ) -> None:
        self._parts, self._vault, self._approved, self._core = parts, vault, approved, core
        self.runs = AgentRunner(parts, vault)

    async def run(
        self,
        name: str,
        prompt: str,
        options: Mapping[str, object],
        *,
        authority: Authority,
        entry: Entry,
        session: str | None = None,
    ) -> RunReport:
        """Let the agent answer: `module/agent`, or one of the daemon's own.

        Raises NotFoundError where there is none of that name, and what `AgentRunner.run` raises.
        """
        return await self.runs.run(
            await self.order(
                name, prompt, options, authority=authority, entry=entry, session=session
            )
        )

    async def order(
        self,
        name: str,
        prompt: str,
        options: Mapping[str, object],
        *,
        authority: Authority,
        entry: Entry,
        session: str | None = None,
    ) -> RunRequest:
        """What that run would be. Raises NotFoundError and ActRefusedError."""
        module, _, agent = name.partition("/")
        if name in self._core:
            return self._of_core(self._core[name], prompt, options, authority, entry, session)
        approved = self._approved(module) if agent else None
        if approved is None:
            raise NotFoundError(
                f"there is no agent {name[:80]!r}; `parachute agents list` shows those that there "
                "are"
            )
        permissions = approved.manifest.permissions
        bounds = ModuleBounds.of_module(module, read=permissions.read, write=permissions.write)
        agents = ModuleAgents(self._parts, self._vault, approved, bounds)
        return await agents.order(
            agent, prompt, options, authority=authority, entry=entry, session=session
        )

    def _of_core(
        self,
        definition: AgentDefinition,
        prompt: str,
        options: Mapping[str, object],
        authority: Authority,
        entry: Entry,
        session: str | None,
    ) -> RunRequest:
        folder, origin, limits = read_options(options, self._parts.limits)
        return RunRequest(
            definition=definition,
            prompt=prompt,
            entry=entry,
            limits=limits,
            origin=authority.words("agent", origin),
            folder=folder,
            session=session,
            authority=authority,
        )
