"""Runs a module's agents, within its permissions and what a person narrowed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from parachuted.access.agent_config import AgentConfig
from parachuted.access.authority import Authority, Entry
from parachuted.access.origin import Origin
from parachuted.errors import NotFoundError
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.runs.agent_parts import AgentParts
from parachuted.runs.agent_plan import make_plan
from parachuted.runs.agent_runner import AgentRunner
from parachuted.runs.bounded_vault import VaultParts
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.run_request import AgentDefinition, RunRequest


class ModuleAgents:
    """The agents of one module."""

    def __init__(
        self, parts: AgentParts, vault: VaultParts, approved: ApprovedModule, bounds: ModuleBounds
    ) -> None:
        self._parts, self._approved, self._bounds = parts, approved, bounds
        self._runs = AgentRunner(parts, vault)

    async def run(
        self, agent: str, prompt: str, options: Mapping[str, object], authority: Authority
    ) -> str:
        """Let the agent answer the prompt, and return its last words. Raises what `ask` raises."""
        way = (
            "bot"
            if authority.entry == "module" and options.get("origin") == "bot"
            else authority.entry
        )
        order = await self.order(agent, prompt, options, authority=authority, entry=way)
        return (await self._runs.run(order)).words

    async def order(
        self,
        agent: str,
        prompt: str,
        options: Mapping[str, object],
        *,
        authority: Authority,
        entry: Entry,
        session: str | None = None,
    ) -> RunRequest:
        """The run that the module asks for, within its rights.

        Raises NotFoundError and ActRefusedError.
        """
        return await asyncio.to_thread(
            self._order, agent, prompt, options, authority, entry, session
        )

    def _order(
        self,
        agent: str,
        prompt: str,
        options: Mapping[str, object],
        authority: Authority,
        entry: Entry,
        session: str | None,
    ) -> RunRequest:
        approved = self._approved
        said = self._parts.said(approved.name)
        plan = make_plan(
            approved, self._config(agent), agent, options, self._parts.limits, said=said
        )
        definition = AgentDefinition(
            name=plan.name,
            who=plan.who,
            config=plan.config,
            bounds=self._bounds,
            system_prompt=plan.system_prompt,
            watcher=f"Modules/{approved.name}",
            module=approved.name,
            calls=approved.manifest.permissions.mcp,
        )
        own: Origin = "imported" if approved.trust == "untrusted" else "agent"
        return RunRequest(
            definition=definition,
            prompt=prompt,
            entry=entry,
            limits=plan.limits,
            origin=authority.words(own, plan.origin),
            folder=plan.folder,
            session=session,
            narrowing=plan.narrowing,
            authority=authority,
        )

    def _config(self, agent: str) -> AgentConfig:
        declared = {**self._parts.declared(self._approved.name), **self._approved.manifest.agents}
        if agent not in declared:
            raise NotFoundError(
                f"the module {self._approved.name} has no agent {agent[:80]!r}; it has "
                f"{', '.join(declared) or 'none'}"
            )
        return declared[agent]
