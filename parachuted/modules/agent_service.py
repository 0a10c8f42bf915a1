"""Runs an agent that a person asked for by its name, over HTTP, at a terminal or in a chat."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parachuted.access.authority import Authority, Entry
from parachuted.errors import NotFoundError
from parachuted.modules.hosting.module_agents import ModuleAgents
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.runs.agent_runner import AgentRunner
from parachuted.runs.run_request import AgentDefinition, RunReport, RunRequest, read_options


class AgentService:
    """All agents that can be asked for.

    `approved` finds a module that may run, `agents_of` makes the agents of one, `core` are the
    daemon's own agents by name.
    """

    def __init__(
        self,
        runner: AgentRunner,
        approved: Callable[[str], ApprovedModule | None],
        agents_of: Callable[[ApprovedModule], ModuleAgents],
        core: Mapping[str, AgentDefinition],
    ) -> None:
        self.runs, self._approved, self._agents_of, self._core = runner, approved, agents_of, core

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
        return await self._agents_of(approved).order(
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
        folder, origin, limits = read_options(options, self.runs.limits)
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
