"""Hooked: an agent's prompt and tool calls as hooks see them, and what they may change of them.

An objection reaches the agent as a tool's error, in the hook's own words. It can make an agent's work smaller, never larger: changed
arguments go the way that the agent's own go, through the tool's schema and its grant.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from parachuted.access.origin import Taint
from parachuted.access.origins import Origins
from parachuted.agents import Tool, ToolResult, call_tool
from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.hooks import Decision, Occurrence
from parachuted.vault import Store, VaultPath

_SHOWN = 2000
_LARGEST_CONTEXT = 16 << 10


class Asker(Protocol):
    """Runs hooks. `wants` is cheap: nothing is put together of which nobody wants to know."""

    def wants(self, event: str) -> bool:
        """Whether there is a hook for that event."""

    async def ask(self, occurrence: Occurrence) -> Decision:
        """Run the hooks that it concerns, and wait for what they say."""

    def tell(self, occurrence: Occurrence) -> None:
        """Run them, and wait for nothing."""


class Unasked:
    """There are no hooks."""

    def wants(self, event: str) -> bool:
        """Nobody does."""
        del event
        return False

    async def ask(self, occurrence: Occurrence) -> Decision:
        """Nobody objects."""
        del occurrence
        return Decision()

    def tell(self, occurrence: Occurrence) -> None:
        """Nobody hears it."""


def _published(event: str, /, **data: object) -> None:
    del event, data


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHooks:
    """One agent's work. `session_id` is what its hooks know it by, `agent` and `module` who works; `publish` tells the bus of a call.

    `added` is called before the agent is shown words of a hook, which may be of any note; before that `saw`, in a thread, with each file
    that the hook says they are from.
    """

    asker: Asker
    clock: Callable[[], datetime]
    vault: Path
    session_id: str
    agent: str
    module: str | None = None
    cwd: Path | None = None
    cause: Mapping[str, object] | None = None
    publish: Callable[..., object] = _published
    added: Callable[[], object] = lambda: None
    saw: Callable[[str], object] = lambda _source: None
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """The same tools, each call of which hooks may see, change and refuse."""
        return tuple(replace(tool, call=self._hooked_call(tool)) for tool in tools)

    async def prompt(self, prompt: str) -> str:
        """What the agent is to be asked: the prompt, with what hooks add to it. Raises ActRefusedError."""
        if not self.asker.wants("prompt.before"):
            return prompt
        decision = await self.asker.ask(self.occurrence("prompt.before", {"prompt": prompt, "source": "system"}))
        if not decision.allowed:
            raise ActRefusedError(f"a hook objected to the prompt: {decision.reason}")
        if decision.context:
            await self._shows(decision)
        return "\n\n".join([prompt, *_bounded(decision.context)])

    async def stopping(self, last_said: str | None) -> Decision:
        """The agent is done. Whoever began the work may let it go on, once, when a hook objects to its end."""
        if not self.asker.wants("stop.before"):
            return Decision()
        data = {"stop_hook_active": False, "last_assistant_message": last_said or ""}
        return await self.asker.ask(self.occurrence("stop.before", data))

    async def before_call(self, name: str, arguments: Mapping[str, object], use: str) -> tuple[str | None, tuple[str, ...]]:
        """What hooks say of a call of a tool that is not ours: the objection, if there is one, and what the agent is to know besides.

        Such a call is made as it is or not at all: a hook that wants other arguments objects to these.
        """
        if not self.asker.wants("tool.before"):
            return None, ()
        told = {"tool_name": name, "tool_input": dict(arguments), "tool_use_id": use}
        decision = await self.asker.ask(self.occurrence("tool.before", told))
        await self._shows(decision)
        if not decision.allowed:
            return f"a hook refused {name}, so nothing was done: {decision.reason}", ()
        if decision.updated_input is not None and dict(decision.updated_input) != dict(arguments):
            return f"a hook wants {name} to be called otherwise, so nothing was done: call it with {_shown(decision.updated_input)}", ()
        return None, tuple(_bounded(decision.context))

    async def after_call(self, name: str, arguments: Mapping[str, object], use: str, result: ToolResult, took: float) -> tuple[str, ...]:
        """What hooks add once such a call has been answered, after so many milliseconds."""
        told: dict[str, object] = {"tool_name": name, "tool_input": dict(arguments), "tool_use_id": use, "duration_ms": round(took, 3)}
        told["tool_response"] = {"text": result.text, "is_error": result.is_error}
        self.publish("tool.after", **_brief(told))
        if not self.asker.wants("tool.after"):
            return ()
        decision = await self.asker.ask(self.occurrence("tool.after", told))
        await self._shows(decision)
        text = decision.updated_output
        said = [text] if isinstance(text, str) else []
        return tuple(_bounded((*said, *decision.context, *([decision.reason] if decision.reason else []))))

    def occurrence(self, event: str, data: Mapping[str, object], *, diff: Mapping[str, object] | None = None) -> Occurrence:
        """Something of this agent's work as a hook is told of it."""
        return Occurrence(
            event=event, at=self.clock(), vault=self.vault, module=self.module, session_id=self.session_id, cwd=self.cwd,
            data={**data, "agent_id": self.session_id, "agent_type": self.agent}, cause=self.cause, diff=diff,
        )  # fmt: skip

    def _hooked_call(self, tool: Tool) -> Callable[[Mapping[str, object]], Awaitable[ToolResult]]:
        async def call(arguments: Mapping[str, object]) -> ToolResult:
            use = f"{self.session_id}-{next(self._numbers)}"
            told: dict[str, object] = {"tool_name": tool.name, "tool_input": dict(arguments), "tool_use_id": use}
            context: tuple[str, ...] = ()
            given: Mapping[str, object] = arguments
            if self.asker.wants("tool.before"):
                decision = await self.asker.ask(self.occurrence("tool.before", told))
                if decision.sources or not decision.allowed:
                    await self._shows(decision)
                if not decision.allowed:
                    return ToolResult(text=f"a hook refused {tool.name}, so nothing was done: {decision.reason}", is_error=True)
                context = decision.context
                given = arguments if decision.updated_input is None else decision.updated_input
            began = time.perf_counter()
            result = await (tool.call(given) if given is arguments else call_tool((tool,), tool.name, given))
            told |= {"tool_input": dict(given), "duration_ms": round((time.perf_counter() - began) * 1000, 3)}
            return self._with_context(await self._after(told, result), context)

        return call

    async def _after(self, told: Mapping[str, object], result: ToolResult) -> ToolResult:
        """What the agent is answered once hooks have seen the answer. The call has happened: an objection to it is one more text."""
        self.publish("tool.after", **_brief({**told, "tool_response": {"text": result.text, "is_error": result.is_error}}))
        if not self.asker.wants("tool.after"):
            return result
        data = {**told, "tool_response": {"text": result.text, "is_error": result.is_error}}
        decision = await self.asker.ask(self.occurrence("tool.after", data))
        text = decision.updated_output
        shown = result
        if decision.sources or isinstance(text, str):
            await self._shows(decision)
        if isinstance(text, str):
            shown = replace(result, text=text)
        return self._with_context(shown, (*decision.context, *([decision.reason] if decision.reason else [])))

    async def _shows(self, decision: Decision) -> None:
        """The agent is about to be shown words of a hook."""
        self.added()
        if decision.sources:
            await asyncio.to_thread(lambda: [self.saw(source) for source in decision.sources])

    def _with_context(self, result: ToolResult, context: Sequence[str]) -> ToolResult:
        if not context:
            return result
        self.added()
        return replace(result, text="\n\n".join([result.text, *_bounded(context)]))


def saw_source(source: str, store: Store, origins: Origins | None, taint: Taint) -> None:
    """An agent is shown words from that file, a path of the vault or a whole one. What cannot be read there is taken for a stranger's.

    Blocks on the disk.
    """
    folder = f"{store.folder}/"
    try:
        path = VaultPath.parse(source.removeprefix(folder))
        content = store.read(path)
    except ParachuteError:
        taint.read(source, "imported")
    else:
        taint.read(path, origins.of_text(path, content.data, content.digest) if origins is not None else "you")


def _bounded(context: Sequence[str]) -> list[str]:
    return [text if len(text) <= _LARGEST_CONTEXT else f"{text[:_LARGEST_CONTEXT]}\n(cut: a hook said more)" for text in context if text]


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
