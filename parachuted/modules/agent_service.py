"""Agents by name: runs one for a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from parachuted.access.caller import Caller
from parachuted.access.grant import Entry
from parachuted.access.strangers import ORIGINS
from parachuted.agents.job import AgentResult
from parachuted.errors import NotFoundError
from parachuted.modules.hosting.module_agents import ModuleAgents
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.runs.agent_runner import AgentRunner
from parachuted.runs.run_request import AgentDefinition, RunRequest, read_options


class AgentService:
    """All agents that can be asked for: the daemon's own (`core`), and those of modules."""

    def __init__(
        self,
        runner: AgentRunner,
        approved: Callable[[str], ApprovedModule | None],
        agents_of: Callable[[ApprovedModule], ModuleAgents],
        core: Mapping[str, AgentDefinition],
    ) -> None:
        self.runs, self.approved, self._agents_of, self._core = runner, approved, agents_of, core

    async def run(
        self,
        name: str,
        prompt: str,
        options: Mapping[str, object],
        *,
        caller: Caller,
        entry: Entry,
        session: str | None = None,
    ) -> AgentResult:
        """Let `module/agent`, or one of the daemon's own, answer. Raises NotFoundError."""
        request = await self.request(name, prompt, options, caller=caller, entry=entry)
        return await self.runs.run(replace(request, session=session))

    async def request(
        self,
        name: str,
        prompt: str,
        options: Mapping[str, object],
        *,
        caller: Caller,
        entry: Entry,
    ) -> RunRequest:
        """What that run would be. Raises NotFoundError and ActRefusedError."""
        module, _, agent = name.partition("/")
        if name in self._core:
            found = read_options(options)
            return RunRequest(
                definition=self._core[name],
                prompt=prompt,
                entry=entry,
                limits=found.limits(self.runs.admission.limits),
                options=found,
                is_strangers=found.origin in ORIGINS,
                caller=caller,
            )
        approved = self.approved(module) if agent else None
        if approved is None:
            raise NotFoundError(
                f"there is no agent {name[:80]!r}; `parachute agents list` shows them"
            )
        return await self._agents_of(approved).request(
            agent, prompt, options, caller=caller, entry=entry
        )
