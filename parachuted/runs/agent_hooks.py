"""Agent hooks: an agent's prompt, calls and sessions as hooks see and restrict them."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from parachuted.access.agent_config import module_of_agent
from parachuted.access.strangers import Strangers, Taint
from parachuted.agents.calling import call_tool
from parachuted.agents.job import PermissionStep, QuestionStep, Tool, ToolResult
from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.events import Bus
from parachuted.history.run_account import RunAccount
from parachuted.hooks import FULL_NAME, HookDecision, HookEvent, Hooks, cause_data
from parachuted.tasks import RunOutcome, Task
from parachuted.vault import Store, VaultPath, printable

_SHOWN = 2000
_WRITING_TOOLS = frozenset(  # ours and Claude Code's
    {"edit_section", "move_note", "set_key", "update_context", "write_note"}
    | {"Edit", "MultiEdit", "NotebookEdit", "Write"}
)
_MOST_SESSIONS = 2_000
_IDLE_S = 1_800.0


class RunHooks:
    """What the hooks of all runs share. `root_of` names the file that began a cause."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        asker: Hooks | None = None,
        strangers: Strangers | None = None,
        root_of: Callable[[str], str | None] = lambda _cause: None,
    ) -> None:
        self.store, self.strangers = store, strangers or Strangers()
        self.publish, self.asker, self._root_of = bus.publish, asker, root_of
        self.sessions = SessionEvents(bus, store.clock)

    def cause_of(self, task: Task, agent: str) -> dict[str, object]:
        root = self._root_of(task.causes[0]) if task.causes else None
        depth = 1 + len(task.parents)
        return cause_data(task.causes, actor=agent, run=task.run, root=root, depth=depth)


class AgentHooks:
    """Of one run of an agent, which hooks know by its `session`, a conversation, or else as `run`.

    What a hook shows the agent of a file counts as read by it (`taint`).
    """

    def __init__(
        self,
        shared: RunHooks,
        run: str,
        agent: str,
        taint: Taint,
        *,
        session: str | None = None,
        folder: str | None = None,
        cause: Mapping[str, object] | None = None,
    ) -> None:
        self._shared, self.run, self._agent, self._taint = shared, run, agent, taint
        self._session, self._module = session or run, module_of_agent(agent)
        self._folder, self._cause = folder, cause
        self._calls, self._ended, self._refusal = 0, "", ""

    @property
    def vault(self) -> Path:
        return self._shared.store.folder

    def wants(self, event: str) -> bool:
        """Whether a hook is for it; else nothing is put together."""
        return self._shared.asker is not None and self._shared.asker.wants(event)

    async def ask(
        self, event: str, data: Mapping[str, object], *, diff: Mapping[str, object] | None = None
    ) -> HookDecision:
        if self._shared.asker is None or not self.wants(event):
            return HookDecision()
        hook_event = HookEvent(
            event=event,
            at=self._shared.store.clock(),
            vault=self.vault,
            module=self._module,
            session_id=self._session,
            cwd=self.vault / self._folder if self._folder else None,
            data={**data, "agent_id": self.run, "agent_type": self._agent},
            cause=self._cause,
            diff=diff,
        )
        decision = await self._shared.asker.ask(hook_event)
        if decision.sources:
            await asyncio.to_thread(self._read_sources, decision.sources)
        return decision

    def _read_sources(self, sources: Iterable[str]) -> None:
        """The agent is shown words from these files; one that cannot be read is a stranger's."""
        store = self._shared.store
        for source in sources:
            try:
                path = VaultPath.parse(source.removeprefix(f"{store.folder}/"))
                content = store.read(path)
            except ParachuteError:
                self._taint.read(source)
                continue
            if self._shared.strangers.is_text(path, content.data):
                self._taint.read(path)

    def tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        return tuple(replace(tool, call=self._hooked_call(tool)) for tool in tools)

    async def prompt(self, prompt: str, *, source: str = "system") -> str:
        """With what hooks add; `source` is `user` for a person's words. Raises ActRefusedError."""
        decision = await self.ask("prompt.before", {"prompt": prompt, "source": source})
        if not decision.allowed:
            raise ActRefusedError(f"a hook objected to the prompt: {decision.reason}")
        return "\n\n".join([prompt, *decision.context])

    async def session_started(self, source: str) -> tuple[str, ...]:
        """A session starts (`startup`) or goes on after a while (`resume`); what hooks add."""
        about = {"session_id": self._session, "module": self._module}
        self._shared.publish("session.start", **about, working_directory=self._folder or "")
        about["working_directory"] = str(self.vault / (self._folder or ""))
        return (await self.ask("session.start", {"source": source, **about})).context

    async def stopping(self, last_said: str | None, *, is_again: bool = False) -> HookDecision:
        """The caller may let the agent go on when a hook objects (`is_again`: it has already)."""
        data = {"stop_hook_active": is_again, "last_assistant_message": last_said or ""}
        return await self.ask("stop.before", data)

    async def before_call(
        self, name: str, arguments: Mapping[str, object], use: str
    ) -> tuple[str | None, tuple[str, ...]]:
        """Of a tool that is not ours: the objection, or None, and what to tell the agent."""
        decision = await self._before(_call_data(name, arguments, use))
        if not decision.allowed:
            return _refusal(name, decision), ()
        wanted = decision.updated_input
        if wanted is None or dict(wanted) == dict(arguments):
            return None, decision.context
        shown = json.dumps(wanted, ensure_ascii=False, default=repr)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
        return (
            f"a hook wants {name} to be called otherwise, so nothing was done: call it with {shown}"
        ), ()

    async def after_call(
        self,
        name: str,
        arguments: Mapping[str, object],
        use: str,
        result: ToolResult,
        took: float,
        full_name: str | None = None,
    ) -> HookDecision:
        """What hooks add once a call has succeeded, after so many milliseconds."""
        if result.is_error:
            return HookDecision()
        text = [{"type": "text", "text": result.text}]
        data = _call_data(name, arguments, use) | {
            "tool_response": text if result.response is None else result.response,
            "duration_ms": round(took, 3),
        }
        self._shared.publish("tool.after", **_brief(data))
        decision = await self.ask("tool.after", data | _full(full_name))
        self._may_end(decision)
        return decision

    def outcome(
        self, account: RunAccount, otherwise: str, *, suggested: Sequence[str] = ()
    ) -> RunOutcome:
        if paths := account.changed:
            updated = f"updated {', '.join(map(printable, paths))}"
            reason = f"{updated}; {self._refusal}" if self._refusal else updated
            return RunOutcome(result="changed", reason=reason)
        if suggested:
            return RunOutcome(result="suggested", reason=f"suggested {', '.join(suggested)}")
        if self._refusal:
            return RunOutcome(result="failed", reason=self._refusal)
        return RunOutcome(result="unchanged", reason=otherwise)

    def refused(self, words: str) -> None:
        self._refusal = words

    def ended(self) -> str | None:
        """Why the agent is not to go on, where a hook has said so."""
        return self._ended or None

    def _hooked_call(self, tool: Tool) -> Callable[[Mapping[str, object]], Awaitable[ToolResult]]:
        async def call(arguments: Mapping[str, object]) -> ToolResult:
            if (reason := self.ended()) is not None:
                return ToolResult(text=f"nothing was done: {reason}", is_error=True)
            self._calls += 1
            name, use = tool.name, f"{self.run}-{self._calls}"
            decision = await self._before(_call_data(name, arguments, use) | _full(tool.full_name))
            if not decision.allowed:
                return ToolResult(text=_refusal(name, decision), is_error=True)
            given = arguments if decision.updated_input is None else decision.updated_input
            began = time.perf_counter()
            result = await (
                tool.call(given) if given is arguments else call_tool((tool,), name, given)
            )
            took = (time.perf_counter() - began) * 1000
            if result.hook_refused:
                self.refused(result.text)
            after = await self.after_call(name, given, use, result, took, tool.full_name)
            words = [result.text, *decision.context, *after.context]
            return replace(result, text="\n\n".join(words)) if words[1:] else result

        return call

    async def _before(self, data: Mapping[str, object]) -> HookDecision:
        decision, name = await self.ask("tool.before", data), data["tool_name"]
        self._may_end(decision)
        if not decision.allowed and name in _WRITING_TOOLS:
            self.refused(f"a hook refused {name}: {decision.reason}")
        return decision

    def _may_end(self, decision: HookDecision) -> None:
        if decision.stop:
            self._ended = self._ended or f"a hook ended the run: {decision.reason}"


def _call_data(name: str, arguments: Mapping[str, object], use: str) -> dict[str, object]:
    return {"tool_name": name, "tool_input": dict(arguments), "tool_use_id": use}


def _full(name: str | None) -> dict[str, object]:
    return {} if name is None else {FULL_NAME: name}


def _refusal(name: str, decision: HookDecision) -> str:
    words = f"a hook refused {name}, so nothing was done: {decision.reason}"
    return "\n\n".join([words, *decision.context])


def _brief(value: Mapping[str, object]) -> dict[str, object]:
    """The same with long texts cut: events are remembered, and hold no notes."""
    return {name: _brief_value(held) for name, held in value.items()}


def _brief_value(value: object) -> object:
    if isinstance(value, str):
        return value[:_SHOWN]
    if isinstance(value, bool | int | float) or value is None:
        return value
    return _brief(value) if isinstance(value, dict) else repr(value)[:_SHOWN]


@dataclass(slots=True, kw_only=True)
class _Session:
    began: datetime
    run: str
    messages: int = 0
    timer: asyncio.TimerHandle | None = None

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class SessionEvents:
    """Sessions end when closed, or `idle_s` after their last turn. All on the event loop."""

    def __init__(self, bus: Bus, clock: Callable[[], datetime], idle_s: float = _IDLE_S) -> None:
        self._publish, self._clock, self._idle_s = bus.publish, clock, idle_s
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def start_of(self, session: str | None) -> str | None:
        """`startup`, `resume` (ended, or the daemon started since), or None: it goes on."""
        if session is None:
            return "startup"
        known = self._sessions.get(session)
        if known is None:
            return "resume"
        known.stop_timer()
        return None

    def ended_turn(self, session: str, run: str, began: datetime) -> None:
        known = self._sessions.setdefault(session, _Session(began=began, run=run))
        self._sessions.move_to_end(session)
        known.run, known.messages = run, known.messages + 2
        known.stop_timer()
        known.timer = asyncio.get_running_loop().call_later(self._idle_s, self._end, session)
        while len(self._sessions) > _MOST_SESSIONS:
            self._end(next(iter(self._sessions)))

    def close(self, run: str) -> None:
        """The session whose last turn was that run is closed."""
        for session in [name for name, known in self._sessions.items() if known.run == run]:
            self._end(session)

    def approach(self, session: str, tokens: int, window: int) -> None:
        event = "context.limit.approaching"
        self._publish(event, session_id=session, token_count=tokens, threshold=window)

    def notify(self, session: str, agent: str, step: QuestionStep | PermissionStep) -> None:
        if isinstance(step, PermissionStep):
            kind, title = "permission_prompt", "A permission"
            message = f"{agent} needs your permission to use {step.tool}"
        else:
            kind, title = "agent_needs_input", "A question"
            message = "\n".join(str(asked.get("question") or "") for asked in step.questions)
        self._publish(
            "session.notification",
            session_id=session,
            notification_type=kind,
            title=title,
            message=message,
        )

    def _end(self, session: str) -> None:
        ended = self._sessions.pop(session)
        ended.stop_timer()
        duration = round((self._clock() - ended.began).total_seconds(), 3)
        self._publish(
            "session.end", session_id=session, message_count=ended.messages, duration=duration
        )
