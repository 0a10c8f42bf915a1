"""An agent's prompt and tool calls as hooks see them, and how hooks may change them.

An objection reaches the agent as a tool's error, in the hook's own words. Hooks can only restrict:
changed arguments pass the tool's schema and the grant like the agent's own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from parachuted.access.authority import NO_AUTHORITY, Authority
from parachuted.access.origin import Taint
from parachuted.access.origins import Origins
from parachuted.agents import CompactionAnswer, Tool, ToolResult, call_tool
from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.events import Bus
from parachuted.history.run_account import RunAccount
from parachuted.hooks import HookDecision, HookEvent
from parachuted.hooks.tool_names import FULL_NAME, WRITING_TOOLS
from parachuted.runs.session_events import SessionEvents
from parachuted.tasks import RunOutcome
from parachuted.vault import Store, VaultPath, printable

_SHOWN = 2000


class HookAsker(Protocol):
    """Runs hooks. `wants` is cheap: nothing is put together without a hook for it."""

    def wants(self, event: str) -> bool: ...

    async def ask(self, hook_event: HookEvent) -> HookDecision:
        """Run the hooks that it concerns, and wait for what they say."""

    def tell(self, hook_event: HookEvent) -> None: ...


class NoHooks:
    """There are no hooks."""

    def wants(self, event: str) -> bool:
        del event
        return False

    async def ask(self, hook_event: HookEvent) -> HookDecision:
        del hook_event
        return HookDecision()

    def tell(self, hook_event: HookEvent) -> None: ...


class RunHooks:
    """What the hooks of all runs share. `sessions` are those of conversation; `origins` says whose
    texts are a stranger's.
    """

    def __init__(
        self,
        store: Store,
        bus: Bus,
        asker: HookAsker | None = None,
        origins: Origins | None = None,
    ) -> None:
        self.store, self.origins = store, origins
        self.publish, self.asker = bus.publish, asker or NoHooks()
        self.sessions = SessionEvents(bus, store.clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHooks:
    """The hooks of one agent's work.

    `session_id` is the run's, `conversation_id` what hooks know its conversation by, `agent` and
    `module` who works, `folder` where. What a hook shows the agent of a file counts as read by it
    (`taint`); `added` is called before the agent is shown words of a hook, which may be of any
    note. Modules that take part act with the `authority`, and share the taint.
    """

    shared: RunHooks
    session_id: str
    agent: str
    taint: Taint
    module: str | None = None
    conversation_id: str | None = None
    folder: str | None = None
    cause: Mapping[str, object] | None = None
    added: Callable[[], object] = lambda: None
    authority: Callable[[], Authority] = lambda: NO_AUTHORITY
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _ends: list[str] = field(default_factory=list)
    _refusals: list[str] = field(default_factory=list)

    @property
    def vault(self) -> Path:
        return self.shared.store.folder

    def wants(self, event: str) -> bool:
        return self.shared.asker.wants(event)

    async def ask(
        self, event: str, data: Mapping[str, object], *, diff: Mapping[str, object] | None = None
    ) -> HookDecision:
        """What hooks say of something of this agent's work. Their words may reach the agent."""
        if not self.wants(event):
            return HookDecision()
        hook_event = HookEvent(
            event=event,
            at=self.shared.store.clock(),
            vault=self.vault,
            module=self.module,
            session_id=self.known_as,
            cwd=self.vault / self.folder if self.folder else None,
            data={**data, "agent_id": self.session_id, "agent_type": self.agent},
            cause=self.cause,
            diff=diff,
            authority=replace(self.authority(), taint=self.taint),
        )
        decision = await self.shared.asker.ask(hook_event)
        has_words = decision.context or decision.sources or decision.updated_output is not None
        if has_words or not decision.allowed:
            self.added()
            if decision.sources:
                await asyncio.to_thread(self._read_sources, decision.sources)
        return decision

    def _read_sources(self, sources: Iterable[str]) -> None:
        """The agent is shown words from these files, each a path of the vault or a whole one.

        What cannot be read there is taken for a stranger's. Blocks on the disk.
        """
        store, origins = self.shared.store, self.shared.origins
        for source in sources:
            try:
                path = VaultPath.parse(source.removeprefix(f"{store.folder}/"))
                content = store.read(path)
            except ParachuteError:
                self.taint.read(source, "imported")
                continue
            known = origins and origins.of_text(path, content.data, content.digest)
            self.taint.read(path, known or "you")

    @property
    def known_as(self) -> str:
        """The session that hooks know this work by."""
        return self.conversation_id or self.session_id

    def tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        return tuple(replace(tool, call=self._hooked_call(tool)) for tool in tools)

    async def prompt(self, prompt: str, *, source: str = "system") -> str:
        """What the agent is to be asked: the prompt, with what hooks add to it.

        `source` is `user` for a person's words. Raises ActRefusedError.
        """
        decision = await self.ask("prompt.before", {"prompt": prompt, "source": source})
        if not decision.allowed:
            raise ActRefusedError(f"a hook objected to the prompt: {decision.reason}")
        return "\n\n".join([prompt, *decision.context])

    async def session_started(self, source: str) -> tuple[str, ...]:
        """A session of conversation starts, or goes on after a while (`source` is `startup` or
        `resume`); what hooks have the agent know.
        """
        about = {"session_id": self.known_as, "module": self.module}
        self.shared.publish("session.start", **about, working_directory=self.folder or "")
        whole = str(self.vault / (self.folder or ""))
        decision = await self.ask(
            "session.start", {"source": source, **about, "working_directory": whole}
        )
        return decision.context

    async def stopping(self, last_said: str | None, *, is_again: bool = False) -> HookDecision:
        """The agent is done.

        The caller may let it go on when a hook objects to its end; `is_again`: it has already.
        """
        data = {"stop_hook_active": is_again, "last_assistant_message": last_said or ""}
        return await self.ask("stop.before", data)

    async def compacting(self, trigger: str, instructions: str | None) -> CompactionAnswer:
        """The older part of the session is about to be summed up; what hooks say of it."""
        decision = await self.ask(
            "compact.before", {"trigger": trigger, "custom_instructions": instructions}
        )
        if not decision.allowed:
            return CompactionAnswer(objection=f"a hook objected: {decision.reason}")
        return CompactionAnswer(instructions="\n\n".join(decision.context))

    async def before_call(
        self, name: str, arguments: Mapping[str, object], use: str
    ) -> tuple[str | None, tuple[str, ...]]:
        """What hooks say of a call of a tool that is not ours: the objection, if there is one, and
        what the agent is to know besides.

        Such a call is made as it is or not at all: a hook that wants other arguments objects to
        these.
        """
        decision = await self._before(name, arguments, use)
        if not decision.allowed:
            return _refusal(name, decision), ()
        if decision.updated_input is not None and dict(decision.updated_input) != dict(arguments):
            return (
                (
                    f"a hook wants {name} to be called otherwise, so nothing was done: call it "
                    "with "
                    f"{_shown(decision.updated_input)}"
                ),
                (),
            )
        return None, decision.context

    async def after_call(
        self,
        name: str,
        arguments: Mapping[str, object],
        use: str,
        result: ToolResult,
        took: float,
        more: Mapping[str, object] = MappingProxyType({}),
    ) -> HookDecision:
        """What hooks add once a call has ended, after so many milliseconds. `more`: further
        fields of the event.

        It has happened: an objection to it is one more text.
        """
        fields: dict[str, object] = {
            "tool_name": name,
            "tool_input": dict(arguments),
            "tool_use_id": use,
            "duration_ms": round(took, 3),
        }
        if result.is_error:
            event, fields["error"], fields["is_interrupt"] = "tool.failed", result.text, False
        else:
            response = (
                [{"type": "text", "text": result.text}]
                if result.response is None
                else result.response
            )
            event, fields["tool_response"] = "tool.after", response
        self.shared.publish(
            event, **_brief({key: value for key, value in fields.items() if key != "is_interrupt"})
        )
        decision = await self.ask(event, {**fields, **more})
        self._may_end(decision)
        return decision

    def outcome(
        self, account: RunAccount, otherwise: str, *, suggested: Sequence[str] = ()
    ) -> RunOutcome:
        """How a run that came to its end ended: by what it wrote, what hooks refused to have
        written, and what it suggested.
        """
        objection = self._refusals[-1] if self._refusals else None
        if account.net:
            updated = f"updated {', '.join(printable(path) for path in account.net)}"
            return RunOutcome(
                result="changed", reason=f"{updated}; {objection}" if objection else updated
            )
        if suggested:
            return RunOutcome(result="suggested", reason=f"suggested {', '.join(suggested)}")
        return (
            RunOutcome(result="failed", reason=objection)
            if objection
            else RunOutcome(result="unchanged", reason=otherwise)
        )

    def refused(self, words: str) -> None:
        self._refusals.append(words)

    def ended(self) -> str | None:
        """Why the agent is not to go on, where a hook has said so."""
        return self._ends[0] if self._ends else None

    def _hooked_call(self, tool: Tool) -> Callable[[Mapping[str, object]], Awaitable[ToolResult]]:
        async def call(arguments: Mapping[str, object]) -> ToolResult:
            if (reason := self.ended()) is not None:
                return ToolResult(text=f"nothing was done: {reason}", is_error=True)
            use = f"{self.session_id}-{next(self._numbers)}"
            more = {FULL_NAME: tool.full_name}
            decision = await self._before(tool.name, arguments, use, more)
            if not decision.allowed:
                return ToolResult(text=_refusal(tool.name, decision), is_error=True)
            given = arguments if decision.updated_input is None else decision.updated_input
            began = time.perf_counter()
            result = await (
                tool.call(given) if given is arguments else call_tool((tool,), tool.name, given)
            )
            took = (time.perf_counter() - began) * 1000
            if result.hook_refused:
                self.refused(result.text)
            after = await self.after_call(tool.name, given, use, result, took, more)
            shown = _text_of(after.updated_output) if not result.is_error else None
            return _with_context(
                result if shown is None else replace(result, text=shown, response=None),
                (*decision.context, *after.context),
            )

        return call

    async def _before(
        self,
        name: str,
        arguments: Mapping[str, object],
        use: str,
        more: Mapping[str, object] = MappingProxyType({}),
    ) -> HookDecision:
        fields = {"tool_name": name, "tool_input": dict(arguments), "tool_use_id": use}
        decision = await self.ask("tool.before", {**fields, **more})
        self._may_end(decision)
        if not decision.allowed and name in WRITING_TOOLS:
            self.refused(f"a hook refused {name}: {decision.reason}")
        return decision

    def _may_end(self, decision: HookDecision) -> None:
        if decision.stop:
            self._ends.append(f"a hook ended the run: {decision.reason}")


def _refusal(name: str, decision: HookDecision) -> str:
    return "\n\n".join(
        [f"a hook refused {name}, so nothing was done: {decision.reason}", *decision.context]
    )


def _with_context(result: ToolResult, context: Sequence[str]) -> ToolResult:
    return replace(result, text="\n\n".join([result.text, *context])) if context else result


def _text_of(output: object) -> str | None:
    """What a hook gives in place of an answer, a text or a list of content blocks, as a tool's
    text; None: it is neither.
    """
    if isinstance(output, str):
        return output
    if not isinstance(output, list):
        return None
    texts = [block.get("text") if isinstance(block, Mapping) else None for block in output]
    return "\n".join(
        text if isinstance(text, str) else json.dumps(block)
        for block, text in zip(output, texts, strict=True)
    )


def _shown(arguments: Mapping[str, object]) -> str:
    text = json.dumps(arguments, ensure_ascii=False, default=repr)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _brief(value: Mapping[str, object]) -> dict[str, object]:
    """The same with long texts cut: events are remembered, and hold no notes."""
    return {name: _brief_value(held) for name, held in value.items()}


def _brief_value(value: object) -> object:
    if isinstance(value, str):
        return value[:_SHOWN]
    if isinstance(value, bool | int | float) or value is None:
        return value
    return _brief(value) if isinstance(value, dict) else repr(value)[:_SHOWN]
