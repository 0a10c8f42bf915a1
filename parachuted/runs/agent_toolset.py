"""Agent toolset: which tools the agent of one run has, and what each may do there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from parachuted.access.authority import Authority
from parachuted.access.grant import Grant
from parachuted.access.origin import Taint
from parachuted.agents import Step, Tool
from parachuted.runs.agent_tools import (
    DeclaredTool,
    ModuleTools,
    ServerTool,
    ServerToolCalls,
    ServerTools,
    is_for,
    module_tools,
    server_tools,
)
from parachuted.runs.conversations import question_tool
from parachuted.runs.granted_vault import GrantedVault
from parachuted.runs.note_tools import NoteTools
from parachuted.runs.run_request import RunRequest
from parachuted.runs.skills import Skill, skill_tool
from parachuted.suggestions import Proposal, SuggestingRun, Suggestion, Suggestions, suggestion_tool
from parachuted.suggestions.orchestrating import Orchestrator, OrchestratorScope
from parachuted.suggestions.payload import ProposalSink
from parachuted.tasks import Task


@dataclass(slots=True, kw_only=True)
class AgentToolset:
    """`stepped` gets what a tool asks a person, who has `answer_s` seconds. `suggested` gets
    the ids of what the run suggests. Modules that it calls act with the `authority`.
    """

    order: RunRequest
    task: Task
    grant: Grant
    taint: Taint
    authority: Callable[[], Authority]
    vault: GrantedVault
    modules: ModuleTools
    servers: ServerTools | None
    suggestions: ProposalSink | None
    suggested: list[str]
    stepped: Callable[[Step], None]
    answer_s: float
    _calls: ServerToolCalls | None = field(default=None, init=False)

    async def make(self, skills: Sequence[Skill]) -> Sequence[Tool]:
        one = self.order.definition
        if not one.has_tools:
            return ()
        run = self.task.run
        notes = NoteTools(vault=self.vault, writing=lambda _what, _path: nullcontext(run))
        made = [
            *(notes.tools(may_write=self.order.may_write) if self.order.may_read else ()),
            *([skill_tool(skills, self.taint)] if skills else []),
            *(one.tools(self.taint) if one.tools else ()),
        ]
        if self.order.conversation is not None:
            made.append(question_tool(self.order.conversation, self.stepped, self.answer_s))
        if self.suggestions is not None and self.order.may_read:
            made.append(self._suggest_tool(self.suggestions, notes))
            made += self._orchestrating(self.suggestions)
        taken = [tool.name for tool in made]
        made += module_tools(
            self._offered(), self.grant.tools, one.module or "", taken, self._call_tool
        )
        return [*made, *await self._of_servers(made)]

    async def close(self) -> None:
        if self._calls is not None:
            await self._calls.close()

    async def _of_servers(self, present: Sequence[Tool]) -> Sequence[Tool]:
        """The tools of other people's MCP servers, where it may call any.

        They were approved for the whole vault: a run that may read only some of it has none.
        """
        if self.servers is None or self.order.authority.is_limited:
            return ()
        if not any("__" in name for name in self.grant.tools):
            return ()
        offered: Sequence[ServerTool] = await asyncio.to_thread(self.servers.tools)
        if not offered:
            return ()
        self._calls = self.servers.open()
        return server_tools(offered, self.grant.tools, present, self._calls, self.taint)

    def _offered(self) -> Iterable[tuple[str, DeclaredTool]]:
        """The tools of modules that are for this agent: all of its own module's; of others those
        that may do what they are for and, where its interfaces are listed, provide one of these.
        """
        allowed, one = self.grant.interfaces, self.order.definition
        for module, spec in self.modules.tools():
            if is_for(module, spec, one.name) and (
                module == one.module
                or (
                    (self.order.may_write or not spec.writes)
                    and (
                        allowed is None
                        or not set(allowed).isdisjoint(self.modules.trust_of(module).provides)
                    )
                )
            ):
                yield module, spec

    async def _call_tool(self, module: str, tool: str, arguments: Mapping[str, object]) -> object:
        """A module acts with its own rights, but writes nothing where the run that calls it may
        not write, and suggests where that has read strangers' texts.
        """
        answer = await self.modules.call_tool(module, tool, arguments, self.authority())
        if not self.modules.trust_of(module).is_trusted:
            self.taint.read_words(f"an answer of {tool}, of the module {module}", "imported")
        return answer

    def _orchestrating(self, suggestions: ProposalSink) -> tuple[Tool, ...]:
        """For an agent that filters what others suggest: the tools for that, within its own
        grant.
        """
        one = self.order.definition
        if not one.config.orchestrates or not isinstance(suggestions, Suggestions):
            return ()
        run = OrchestratorScope(
            agent=one.name,
            sees=self.grant.may_read,
            writes=self.grant.may_write,
            lane=lambda path: self.grant.may_write(path, tainted=True),
            of=one.config.orchestrates,
            run=self.task.run or "",
            causes=self.task.causes,
            origin=lambda: self.taint.origin,
            read=self.taint.read,
        )
        return Orchestrator(suggestions, run).tools()

    def _suggest_tool(self, suggestions: ProposalSink, notes: NoteTools) -> Tool:
        run = SuggestingRun(
            agent=self.order.definition.name,
            sees=lambda path: self.grant.may_read(path) or self.grant.may_write(path),
            session=self.order.session or "",
            run=self.task.run or "",
            causes=self.task.causes,
            origin=lambda: self.taint.origin,
            read=notes.seen.digests,
        )
        sink = _RememberingSink(suggestions=suggestions, suggested=self.suggested)
        return suggestion_tool(sink, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RememberingSink:
    """Suggestions, of which the run remembers its own."""

    suggestions: ProposalSink
    suggested: list[str]

    async def propose(self, proposal: Proposal) -> Suggestion:
        suggestion = await self.suggestions.propose(proposal)
        self.suggested.append(suggestion.id)
        return suggestion
