"""Runs a module's agents, within its permissions and what a person narrowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from parachuted.access.agent_config import AgentConfig
from parachuted.access.authority import Authority, Entry
from parachuted.access.narrowed import narrowing_configs
from parachuted.access.origin import Origin
from parachuted.agents import ConversationInput, RunLimits
from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.prompts import ModulePrompts
from parachuted.runs.agent_runner import AgentRunner
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.conversations import (
    CONVERSATION_RULES,
    ConversationOptions,
    read_conversation_options,
    read_narrowing,
)
from parachuted.runs.run_request import (
    RULES,
    AgentDefinition,
    RunFollower,
    RunPlan,
    RunReport,
    RunRequest,
    make_plan,
    read_options,
)
from parachuted.runs.skills import Skill

_QUESTION, _CONVERSATION = "question", "conversation"
_ANSWER = "Answer the question. You have no tools, and cannot ask anyone."


class ModuleAgents:
    """The agents of one module."""

    def __init__(
        self,
        runner: AgentRunner,
        approved: ApprovedModule,
        *,
        declared: Callable[[str], Mapping[str, AgentConfig]],
        prompts: ModulePrompts,
        core: Mapping[str, AgentDefinition] = MappingProxyType({}),
    ) -> None:
        """`declared` answers the agents that a module's class declares beside its manifest;
        `prompts` are what a person has a module's agents told besides their own instructions;
        `core` are the daemon's own agents, which a trusted module may ask that names them among
        the tools that it uses.
        """
        self._runs, self._approved, self._declared, self._prompts = (
            runner,
            approved,
            declared,
            prompts,
        )
        permissions = approved.manifest.permissions
        self._core = core if self.is_trusted else {}
        self._bounds = ModuleBounds.of_module(
            approved.name, read=permissions.read, write=permissions.write
        )

    @property
    def is_trusted(self) -> bool:
        """Whether the module is trusted as the daemon itself, by a person or by its signature."""
        return self._approved.trust != "untrusted"

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

    async def follow(
        self,
        agent: str,
        prompt: str,
        options: Mapping[str, object],
        authority: Authority,
        follower: RunFollower,
    ) -> RunReport:
        """The same, with someone who hears of its steps; `session_id` among the options is an
        earlier run's session, `budget` the word `conversation`, where it serves one. Raises what
        `AgentRunner.run` raises.
        """
        rest = dict(options)
        budget = rest.pop("budget", None)
        if budget not in {None, _CONVERSATION}:
            raise ActRefusedError(f"start: budget is left out, or {_CONVERSATION!r}")
        session = rest.pop("session_id", None)
        if session is not None and not isinstance(session, str):
            raise ActRefusedError("session_id should be a text")
        order = await self.order(
            agent, prompt, rest, authority=authority, entry=authority.entry, session=session
        )
        is_beside = budget is not None and authority.asked_by == "person"
        return await self._runs.run(
            replace(order, follower=follower, is_beside_conversation=is_beside)
        )

    async def converse(
        self,
        agent: str,
        prompt: str,
        options: Mapping[str, object],
        authority: Authority,
        follower: RunFollower,
        said: ConversationInput,
    ) -> RunReport:
        """The same for a run of a conversation: `said` is what the person says meanwhile.

        It enters as `chat` where a person began the work, and else by the way that it came. Raises
        ActRefusedError for options that are none, and what `AgentRunner.run` raises.
        """
        own, rest = read_conversation_options(options)
        session = rest.pop("session_id", None)
        if session is not None and not isinstance(session, str):
            raise ActRefusedError("session_id should be a text")
        entry: Entry = "chat" if authority.asked_by == "person" else authority.entry
        order = await asyncio.to_thread(
            self._order, agent, prompt, rest, authority, entry, session, own
        )
        return await self._runs.run(replace(order, follower=follower, conversation=said))

    async def servers(
        self, agent: str, options: Mapping[str, object], authority: Authority
    ) -> tuple[str, ...]:
        """The MCP servers that such a run of a conversation could call. Raises what `converse`
        raises for its options.
        """
        own, rest = read_conversation_options(options)
        order = await asyncio.to_thread(
            self._order, agent, "", rest, authority, authority.entry, None, own
        )
        return await asyncio.to_thread(self._runs.servers_of, order)

    async def skills(self, authority: Authority) -> tuple[Skill, ...]:
        """The vault's, where one of the module's agents may have them and the caller is not limited
        to some paths.
        """
        declared = {**self._declared(self._approved.name), **self._approved.manifest.agents}
        if authority.is_limited or not any(one.allow_workspace_skills for one in declared.values()):
            return ()
        return await self._runs.skills_of_vault()

    def end_process(self, run: str) -> None:
        """End the process that was kept after a run of these, if one was."""
        self._runs.end_process(run)

    async def ask(
        self,
        prompt: str,
        system: str | None,
        max_usd: float | None,
        authority: Authority,
        *,
        conversation: bool = False,
    ) -> str:
        """A model's answer to one question: a run without tools, with all that bounds a run.

        `conversation`: that budget pays where a person began the work. Raises what
        `AgentRunner.run` raises.
        """
        name = self._approved.name
        options = {} if max_usd is None else {"max_cost_usd": max_usd}
        _, _, limits = read_options(options, self._runs.limits)
        definition = AgentDefinition(
            name=f"{name}/{_QUESTION}",
            who=f"the question of the module {name}",
            config=AgentConfig(description="Answers one question of its module."),
            bounds=self._bounds,
            system_prompt=system or _ANSWER,
            watcher=f"Modules/{name}",
            module=name,
            has_tools=False,
        )
        own: Origin = "imported" if self._approved.trust == "untrusted" else "agent"
        order = RunRequest(
            definition=definition,
            prompt=prompt,
            entry=authority.entry,
            limits=replace(limits, max_turns=1),
            origin=authority.words(own),
            authority=authority,
            is_beside_conversation=conversation and authority.asked_by == "person",
        )
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
        own: ConversationOptions | None = None,
    ) -> RunRequest:
        approved = self._approved
        talk, options = read_narrowing(options) if own is None else (own, options)
        is_turn = own is not None and entry == "chat"
        limits = self._runs.conversation_limits if is_turn else self._runs.limits
        if agent in self._core and agent in approved.manifest.permissions.mcp:
            definition = self._core[agent]
            return order_of_core(
                definition, prompt, options, authority, entry, session, limits, talk
            )
        config = self._config(agent)
        plan = make_plan(
            approved,
            config if talk.model is None else replace(config, model=talk.model),
            agent,
            options,
            limits,
            said=self._prompts.get(approved.name),
            system_prompt=talk.system_prompt,
            rules=RULES if own is None else CONVERSATION_RULES,
        )
        whose: Origin = "imported" if approved.trust == "untrusted" else "agent"
        return RunRequest(
            definition=self._definition(plan),
            prompt=prompt,
            entry=entry,
            limits=plan.limits,
            origin=authority.words(whose, plan.origin),
            folder=plan.folder,
            session=session,
            narrowing=(*plan.narrowing, *narrowing_configs(talk.narrowing)),
            limit=talk.narrowing,
            authority=authority,
            attachments=talk.attachments,
            context_folders=talk.context_folders,
            history=talk.history,
            context=talk.context,
            conversation_id=talk.conversation_id,
            conversation_folder=talk.conversation_folder,
        )

    def _definition(self, plan: RunPlan) -> AgentDefinition:
        name = self._approved.name
        return AgentDefinition(
            name=plan.name,
            who=plan.who,
            config=plan.config,
            bounds=self._bounds,
            system_prompt=plan.system_prompt,
            watcher=f"Modules/{name}",
            module=name,
            calls=self._runs.callable_tools(self._approved.manifest.permissions.mcp, plan.name),
        )

    def _config(self, agent: str) -> AgentConfig:
        declared = {**self._declared(self._approved.name), **self._approved.manifest.agents}
        if agent not in declared:
            raise NotFoundError(
                f"the module {self._approved.name} has no agent {agent[:80]!r}; it has "
                f"{', '.join(declared) or 'none'}"
            )
        return declared[agent]


def order_of_core(
    definition: AgentDefinition,
    prompt: str,
    options: Mapping[str, object],
    authority: Authority,
    entry: Entry,
    session: str | None,
    limits: RunLimits,
    talk: ConversationOptions | None = None,
) -> RunRequest:
    """A run of one of the daemon's own agents, which keeps its words, its tools and its bounds: the
    caller may only narrow them. Raises ActRefusedError.
    """
    folder, origin, limits = read_options(options, limits)
    talk = talk or ConversationOptions()
    return RunRequest(
        definition=definition,
        prompt=prompt,
        entry=entry,
        limits=limits,
        origin=authority.words("agent", origin),
        folder=folder,
        session=session,
        narrowing=narrowing_configs(talk.narrowing),
        limit=talk.narrowing,
        authority=authority,
        attachments=talk.attachments,
        history=talk.history,
        conversation_id=talk.conversation_id,
        conversation_folder=talk.conversation_folder,
    )
