"""Agent toolset: which tools the agent of one run has, and what each may do there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from parachuted.access.grant import Grant
from parachuted.agents import Tool
from parachuted.runs.agent_tools import (
    MCP_SERVERS,
    DeclaredTool,
    ModuleTools,
    NoModuleTools,
    ServerTool,
    ServerTools,
    is_for,
    module_tools,
    server_tools,
)
from parachuted.runs.conversations import question_tool
from parachuted.runs.note_tools import NoteTools
from parachuted.runs.requested_run import RequestedRun
from parachuted.runs.skills import Skill, skill_tool
from parachuted.suggestions import Proposal, SuggestingRun, Suggestion, Suggestions, suggestion_tool
from parachuted.suggestions.orchestrating import Orchestrator, OrchestratorScope
from parachuted.suggestions.payload import ProposalSink


class AgentTools:
    """The tools of agents: the daemon's, those of modules, and those of other people's MCP
    servers.
    """

    def __init__(
        self, modules: ModuleTools | None = None, servers: ServerTools | None = None
    ) -> None:
        self._modules, self._servers = modules or NoModuleTools(), servers

    def callable_tools(self, asked: Sequence[str], agent: str) -> tuple[str, ...]:
        """The tools that a manifest asks for by name and that are not for other agents than this
        one, with those of the MCP servers that a person approved where it asks for these. Blocks on
        the disk.
        """
        known = [(spec.name, is_for(of, spec, agent)) for of, spec in self._modules.tools()]
        asked = [name for name in asked if (name, True) in known or (name, False) not in known]
        if MCP_SERVERS not in asked:
            return tuple(asked)
        of_servers = [tool.name for tool in self._servers.tools()] if self._servers else []
        return (*(name for name in asked if name != MCP_SERVERS), *of_servers)

    def server_names(self, grant: Grant) -> tuple[str, ...]:
        """The MCP servers whose tools a run of that grant could call. Blocks on the disk."""
        if self._servers is None:
            return ()
        allowed = set(grant.tools)
        offered = self._servers.tools()
        return tuple(sorted({tool.server for tool in offered if tool.name in allowed}))

    async def of_run(self, run: RequestedRun, skills: Sequence[Skill]) -> Sequence[Tool]:
        request, definition = run.request, run.request.definition
        if not definition.has_tools:
            return ()
        notes = NoteTools(vault=run.vault, writing=lambda _what, _path: nullcontext(run.id))
        tools = [
            *(notes.tools(may_write=request.may_write) if request.may_read else ()),
            *([skill_tool(skills, run.taint)] if skills else []),
            *(definition.tools(run.taint) if definition.tools else ()),
        ]
        if request.conversation is not None:
            tools.append(
                question_tool(request.conversation.input, run.stepped, run.guards.answer_s)
            )
        suggestions = run.guards.suggestions
        if suggestions is not None and request.may_read:
            tools.append(_suggest_tool(run, suggestions, notes))
            tools += _orchestrating_tools(run, suggestions)

        async def call_module(module: str, tool: str, arguments: Mapping[str, object]) -> object:
            return await self._call_module(run, module, tool, arguments)

        taken = [tool.name for tool in tools]
        tools += module_tools(
            self._offered(run), run.grant.tools, definition.module or "", taken, call_module
        )
        return [*tools, *await self._of_servers(run, tools)]

    def _offered(self, run: RequestedRun) -> Iterable[tuple[str, DeclaredTool]]:
        """The tools of modules that are for this agent: all of its own module's; of others those
        that may do what they are for and, where its interfaces are listed, provide one of these.
        """
        allowed, definition = run.grant.interfaces, run.request.definition
        for module, spec in self._modules.tools():
            if is_for(module, spec, definition.name) and (
                module == definition.module
                or (
                    (run.request.may_write or not spec.writes)
                    and (
                        allowed is None
                        or not set(allowed).isdisjoint(self._modules.trust_of(module).provides)
                    )
                )
            ):
                yield module, spec

    async def _call_module(
        self, run: RequestedRun, module: str, tool: str, arguments: Mapping[str, object]
    ) -> object:
        """A module acts with its own rights, but writes nothing where the run that calls it may
        not write, and suggests where that has read strangers' texts.
        """
        answer = await self._modules.call_tool(module, tool, arguments, run.tool_authority())
        if not self._modules.trust_of(module).is_trusted:
            run.taint.read_words(f"an answer of {tool}, of the module {module}", "imported")
        return answer

    async def _of_servers(self, run: RequestedRun, present: Sequence[Tool]) -> Sequence[Tool]:
        """The tools of other people's MCP servers, where it may call any.

        They were approved for the whole vault: a run that may read only some of it has none.
        """
        if self._servers is None or run.request.authority.is_limited:
            return ()
        if not any("__" in name for name in run.grant.tools):
            return ()
        offered: Sequence[ServerTool] = await asyncio.to_thread(self._servers.tools)
        if not offered:
            return ()
        run.server_calls = self._servers.open()
        return server_tools(offered, run.grant.tools, present, run.server_calls, run.taint)


def _orchestrating_tools(run: RequestedRun, suggestions: ProposalSink) -> tuple[Tool, ...]:
    """For an agent that filters what others suggest: the tools for that, within its own grant."""
    config, grant = run.request.definition.config, run.grant
    if not config.orchestrates or not isinstance(suggestions, Suggestions):
        return ()
    scope = OrchestratorScope(
        agent=run.agent,
        sees=grant.may_read,
        writes=grant.may_write,
        lane=lambda path: grant.may_write(path, tainted=True),
        of=config.orchestrates,
        run=run.id,
        causes=run.task.causes,
        origin=lambda: run.taint.origin,
        read=run.taint.read,
    )
    return Orchestrator(suggestions, scope).tools()


def _suggest_tool(run: RequestedRun, suggestions: ProposalSink, notes: NoteTools) -> Tool:
    grant = run.grant
    suggesting = SuggestingRun(
        agent=run.agent,
        sees=lambda path: grant.may_read(path) or grant.may_write(path),
        session=run.request.session or "",
        run=run.id,
        causes=run.task.causes,
        origin=lambda: run.taint.origin,
        read=notes.seen.digests,
    )
    sink = _RememberingSink(suggestions=suggestions, suggested=run.suggested)
    return suggestion_tool(sink, suggesting)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RememberingSink:
    """Suggestions, of which the run remembers its own."""

    suggestions: ProposalSink
    suggested: list[str]

    async def propose(self, proposal: Proposal) -> Suggestion:
        suggestion = await self.suggestions.propose(proposal)
        self.suggested.append(suggestion.id)
        return suggestion
