"""Agent hooks: an agent's prompt, calls and sessions as hooks see and restrict them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from parachuted.access.agent_config import module_of_agent
from parachuted.access.strangers import Taint
from parachuted.agents.calling import call_tool
from parachuted.agents.job import PermissionStep, QuestionStep, Tool, ToolResult
from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.events import Bus
from parachuted.hooks import FULL_NAME, HookDecision, HookEvent, Hooks, cause_data
from parachuted.runs.granted_vault import GrantedVaults
from parachuted.tasks import Task
from parachuted.vault import VaultPath

_BRIEF = 2000
_WRITING_TOOLS = frozenset(  # ours and Claude Code's
    {"edit_section", "move_note", "set_key", "update_context", "write_note"}
    | {"Edit", "MultiEdit", "NotebookEdit", "Write"}
)
_IDLE_S = 1_800.0


@dataclass(slots=True)
class RunHooks:
    """What the hooks of all runs share. `root_of` names the file that began a cause."""

    vaults: GrantedVaults
    bus: Bus
    asker: Hooks | None = None
    root_of: Callable[[str], str | None] = lambda _cause: None


class AgentHooks:
    """Of one run of an agent, which hooks know by its `session`, a conversation, or else as `run`.

    What a hook shows the agent of a file counts as read by it (`taint`). `refusal` is what a hook
    last said to a write.
    """

    def __init__(
        self,
        shared: RunHooks,
        run: str,
        agent: str,
        taint: Taint,
        session: str | None = None,
        folder: str | None = None,
        task: Task | None = None,
    ) -> None:
        self._asker, self._publish = shared.asker, shared.bus.publish
        self._store, self._strangers = shared.vaults.store, shared.vaults.strangers
        self.run, self._agent, self._taint = run, agent, taint
        self._session, self._folder, self._module = session or run, folder, module_of_agent(agent)
        self._cause: Mapping[str, object] | None = None
        if task is not None:
            root = shared.root_of(task.causes[0]) if task.causes else None
            depth = 1 + len(task.parents)
            self._cause = cause_data(task.causes, actor=agent, run=run, root=root, depth=depth)
        self._calls, self._ended, self.refusal = 0, "", ""

    @property
    def vault(self) -> Path:
        return self._store.folder

    async def ask(self, event: str, data: Mapping[str, object]) -> HookDecision:
        if self._asker is None or not self._asker.wants(event):
            return HookDecision()
        hook_event = HookEvent(
            event=event,
            at=self._store.clock(),
            vault=self.vault,
            module=self._module,
            session_id=self._session,
            cwd=self.vault / self._folder if self._folder else None,
            data={**data, "agent_id": self.run, "agent_type": self._agent},
            cause=self._cause,
        )
        decision = await self._asker.ask(hook_event)
        if decision.sources:
            await asyncio.to_thread(self._read_sources, decision.sources)
        return decision

    def _read_sources(self, sources: Iterable[str]) -> None:
        """The agent is shown words from these files; one that cannot be read is a stranger's."""
        for source in sources:
            try:
                path = VaultPath.parse(source.removeprefix(f"{self.vault}/"))
                if self._strangers.is_text(path, self._store.read(path).data):
                    self._taint.read(path)
            except ParachuteError:
                self._taint.read(source)

    async def prompt(self, prompt: str, *, source: str = "system") -> str:
        """With what hooks add; `source` is `user` for a person's words. Raises ActRefusedError."""
        decision = await self.ask("prompt.before", {"prompt": prompt, "source": source})
        if not decision.allowed:
            raise ActRefusedError(f"a hook objected to the prompt: {decision.reason}")
        return "\n\n".join([prompt, *decision.context])

    async def session_started(self, source: str) -> tuple[str, ...]:
        """A session starts (`startup`) or goes on after a while (`resume`); what hooks add."""
        about = {"session_id": self._session, "module": self._module}
        self._publish("session.start", **about, working_directory=self._folder or "")
        about["working_directory"] = str(self.vault / (self._folder or ""))
        return (await self.ask("session.start", {"source": source, **about})).context

    async def stopping(self, last_said: str | None, *, is_again: bool = False) -> HookDecision:
        """The caller may let the agent go on when a hook objects (`is_again`: it has already)."""
        data = {"stop_hook_active": is_again, "last_assistant_message": last_said or ""}
        return await self.ask("stop.before", data)

    def tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        return tuple(replace(tool, call=partial(self._call, tool)) for tool in tools)

    async def before_call(
        self, name: str, arguments: Mapping[str, object], use: str, full_name: str = ""
    ) -> HookDecision:
        """`reason` is what to answer the agent where it is not allowed."""
        data = _call_data(name, arguments, use, full_name)
        decision = self._heed(await self.ask("tool.before", data))
        if decision.allowed:
            return decision
        if name in _WRITING_TOOLS:
            self.refused(f"a hook refused {name}: {decision.reason}")
        refused = f"a hook refused {name}, so nothing was done: {decision.reason}"
        return replace(decision, reason="\n\n".join([refused, *decision.context]))

    async def after_call(
        self,
        name: str,
        arguments: Mapping[str, object],
        use: str,
        result: ToolResult,
        began: float,
        full_name: str = "",
    ) -> tuple[str, ...]:
        """What hooks add once a call has succeeded, which began at that time of `perf_counter`."""
        if result.is_error:
            return ()
        text = [{"type": "text", "text": result.text}]
        data = _call_data(name, arguments, use, full_name) | {
            "tool_response": text if result.response is None else result.response,
            "duration_ms": round((time.perf_counter() - began) * 1000, 3),
        }
        # events are remembered, and hold no notes
        brief = {key: _brief(value) for key, value in data.items() if key != FULL_NAME}
        self._publish("tool.after", **brief)
        return self._heed(await self.ask("tool.after", data)).context

    def refused(self, words: str) -> None:
        self.refusal = words

    def ended(self) -> str | None:
        """Why the agent is not to go on, where a hook has said so."""
        return self._ended or None

    def _heed(self, decision: HookDecision) -> HookDecision:
        if decision.stop:
            self._ended = self._ended or f"a hook ended the run: {decision.reason}"
        return decision

    async def _call(self, tool: Tool, arguments: Mapping[str, object]) -> ToolResult:
        if (reason := self.ended()) is not None:
            return ToolResult.refusal(f"nothing was done: {reason}")
        self._calls += 1
        name, use = tool.name, f"{self.run}-{self._calls}"
        before = await self.before_call(name, arguments, use, tool.full_name)
        if not before.allowed:
            return ToolResult.refusal(before.reason)
        began = time.perf_counter()
        if before.updated_input is None:
            result = await tool.call(arguments)
        else:
            arguments = before.updated_input
            result = await call_tool((tool,), name, arguments)
        if result.hook_refused:
            self.refused(result.text)
        added = await self.after_call(name, arguments, use, result, began, tool.full_name)
        words = "\n\n".join([result.text, *before.context, *added])
        return replace(result, text=words, arguments=before.updated_input)


def _call_data(
    name: str, arguments: Mapping[str, object], use: str, full_name: str
) -> dict[str, object]:
    return {
        "tool_name": name,
        "tool_input": dict(arguments),
        "tool_use_id": use,
        FULL_NAME: full_name or name,
    }


def _brief(value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, dict):
        return {name: _brief(inner) for name, inner in value.items()}
    return (value if isinstance(value, str) else repr(value))[:_BRIEF]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    began: datetime
    run: str
    messages: int
    timer: asyncio.TimerHandle


class SessionEvents:
    """Sessions end when closed, or `idle_s` after their last turn. All on the event loop."""

    def __init__(self, bus: Bus, clock: Callable[[], datetime], idle_s: float = _IDLE_S) -> None:
        self._publish, self._clock, self._idle_s = bus.publish, clock, idle_s
        self._sessions: dict[str, _Session] = {}

    def start_of(self, session: str | None) -> str | None:
        """`startup`, `resume` (ended, or the daemon started since), or None: it goes on."""
        if session is None:
            return "startup"
        known = self._sessions.get(session)
        if known is None:
            return "resume"
        known.timer.cancel()
        return None

    def ended_turn(self, session: str, run: str, began: datetime) -> None:
        messages, known = 2, self._sessions.get(session)
        if known is not None:
            known.timer.cancel()
            began, messages = known.began, known.messages + 2
        timer = asyncio.get_running_loop().call_later(self._idle_s, self._end, session)
        self._sessions[session] = _Session(began=began, run=run, messages=messages, timer=timer)

    def close(self, run: str) -> None:
        """The session whose last turn was that run is closed."""
        for session in [name for name, known in self._sessions.items() if known.run == run]:
            self._end(session)

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
        ended.timer.cancel()
        duration = round((self._clock() - ended.began).total_seconds(), 3)
        self._publish(
            "session.end", session_id=session, message_count=ended.messages, duration=duration
        )
