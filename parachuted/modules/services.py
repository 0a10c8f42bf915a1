"""The services of a module, the same in the daemon and in a container; an agent's run as a stream
of steps, and a question to a model.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Protocol, TypeAlias

from parachuted.access.caller import Caller
from parachuted.access.notes import Activity, ByKind
from parachuted.agents.job import (
    AgentResult,
    PermissionStep,
    QuestionStep,
    SessionStep,
    TextDelta,
    TextStep,
    ThinkingDelta,
    ToolUseStep,
    UsageStep,
)
from parachuted.audit.activity import ActivityLog
from parachuted.errors import ActRefusedError, AgentFailedError
from parachuted.modules.module_state import StateAccess
from parachuted.modules.outside_folders import FolderAccess
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.processes.heavy import load_heavy, load_heavy_here
from parachuted.runs.granted_vault import GrantedVault
from parachuted.texts.times import time_of

_NAMED = "private"


def visible_to_agents(text: str) -> str:
    """The text of a note without what is private, which is for no prompt and no index."""
    if _NAMED not in text.lower():
        return text
    return str(load_heavy_here("private").visible_to_agents(text))


def is_shortened(text: str) -> bool:
    """Whether a private part was left out of the text that was read."""
    return _NAMED in text and bool(load_heavy_here("private").is_shortened(text))


_FENCED = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToolCall:
    """The agent called a tool, and has its answer. `id` is that of its `AgentToolUse`, if any."""

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    answer: str = ""
    is_error: bool = False
    id: str = ""


AgentStep: TypeAlias = Annotated[
    TextStep
    | AgentToolCall
    | TextDelta
    | ThinkingDelta
    | ToolUseStep
    | SessionStep
    | UsageStep
    | QuestionStep
    | PermissionStep,
    ByKind(),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSkill:
    """A skill of the vault: its name, when to use it, and the path of its file."""

    name: str
    description: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResources:
    """What a run has beside the notes: the `skills` of the vault that a person can choose for it,
    by name, and the names of the MCP servers whose tools it can call.
    """

    skills: tuple[AgentSkill, ...] = ()
    mcp_servers: tuple[str, ...] = ()


class RunAccess(Protocol):
    """The runs of a module's agents; `AgentRun` and `ModuleAgent` say what each method does."""

    async def run(self, agent: str, prompt: str, options: Mapping[str, object]) -> str: ...

    async def start(self, agent: str, prompt: str, options: Mapping[str, object]) -> str: ...

    async def next(self, run: str) -> AgentStep | None: ...

    async def result(self, run: str) -> AgentResult: ...

    async def stop(self, run: str) -> bool: ...

    async def inject(self, run: str, text: str) -> bool: ...

    async def answer(self, run: str, name: str, value: object) -> bool: ...

    async def ask(
        self, prompt: str, system: str | None, max_usd: float | None, *, conversation: bool = False
    ) -> str: ...

    async def resources(self, agent: str, options: Mapping[str, object]) -> AgentResources: ...

    async def skill(self, name: str) -> str: ...


class AgentRun:
    """A run that goes on: iterate over its steps, as often or as seldom as you like.

    It goes on without a reader, and ends with the module.
    """

    def __init__(self, run: str, access: RunAccess) -> None:
        self.id, self._access = run, access

    def __aiter__(self) -> AsyncIterator[AgentStep]:
        return self

    async def __anext__(self) -> AgentStep:
        step = await self._access.next(self.id)
        if step is None:
            raise StopAsyncIteration
        return step

    async def result(self) -> AgentResult:
        """Wait for the end, and return what it came to.

        Raises AgentStoppedError when it was stopped, AgentFailedError when it did not end well.
        """
        return await self._access.result(self.id)

    async def stop(self) -> bool:
        """End it now; whether it was at work. After a run of a conversation this ends the process
        that waits for the next turn.
        """
        return await self._access.stop(self.id)

    async def inject(self, text: str) -> bool:
        """Say that to the agent of a conversation's run, which hears it after its next tool call or
        answer; False: the run has ended. Raises ActRefusedError where 20 messages wait.
        """
        return await self._access.inject(self.id, text)

    async def answer(self, id_: str, value: object) -> bool:
        """Answer an `AgentQuestion` or an `AgentPermissionRequest` by its id; False: none of that
        id waits. Raises ActRefusedError for an answer that does not fit.
        """
        return await self._access.answer(self.id, id_, value)


class ModuleAgent:
    """One of the module's agents."""

    def __init__(self, name: str, access: RunAccess) -> None:
        self.name, self._access = name, access

    async def start(self, prompt: str, /, **options: object) -> AgentRun:
        """Let it answer the prompt, and return once it has started.

        Options: those of `Module.run_agent`, and `session_id`, an earlier run's to go on with.
        With `conversation=True` its words are steps as they come, a person can be asked, and there
        are more: `model`, `system_prompt`, `attachments` (files of the vault), `narrowing` (an
        `AgentNarrowing`), `history`, what was said before, for a session that cannot be resumed,
        `context`, what goes ahead of the prompt and is not the person's words, and what hooks know
        the conversation by: `conversation_id` and `conversation_folder`.
        `budget="conversation"`: another run that serves a conversation, whose budget pays for it.
        Raises what `Module.run_agent` raises before anything is spent.
        """
        return AgentRun(await self._access.start(self.name, prompt, options), self._access)

    async def resources(self, **options: object) -> AgentResources:
        """The skills and MCP servers that a turn of a conversation would have, which `start` is
        given these options for. No run begins.

        There are skills where one of the module's agents has `allow_workspace_skills`, and a caller
        who reaches only some paths has neither skills nor servers. Raises what `start` raises for
        its options.
        """
        return await self._access.resources(self.name, options)

    async def skill(self, name: str) -> str:
        """The text of one of these skills, for a prompt. NotFoundError: there is none."""
        return await self._access.skill(name)


def with_schema(prompt: str, schema: Mapping[str, object]) -> str:
    return (
        f"{prompt}\n\nAnswer with one JSON value alone, without any other words, that fits this "
        f"JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"
    )


async def read_answer(answer: str, schema: Mapping[str, object]) -> object:
    """Raises AgentFailedError where it is no JSON that fits."""
    text = answer.strip()
    fenced = _FENCED.fullmatch(text)
    try:
        value = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError) as error:
        raise AgentFailedError(f"the model's answer is not JSON: {text[:_MOST_SHOWN]!r}") from error
    validators = await load_heavy("jsonschema")
    problem = next(validators.Draft202012Validator(dict(schema)).iter_errors(value), None)
    if problem is not None:
        raise AgentFailedError(
            f"the model's answer does not fit the schema: {str(problem.message)[:_MOST_SHOWN]}"
        )
    return value


class ActivityAccess:
    """What was talked about, one file a day, in the vault's `.parachute/activity/`."""

    def __init__(
        self, module: str, log: ActivityLog, caller: Callable[[], Caller], *, reads_all: bool
    ) -> None:
        self._module, self._log, self._caller = module, log, caller
        self._reads_all = reads_all

    async def log(
        self,
        summary: str,
        *,
        session_id: str | None = None,
        session_title: str | None = None,
        agent_type: str | None = None,
        exchange_number: int = 0,
    ) -> None:
        """Add one line, with the time that it is now.

        EditRefusedError: the summary is too long. StorageFailedError.
        """
        self._caller().check()
        activity = Activity(
            ts=time_of(self._log.clock()),
            summary=summary,
            session_id=session_id,
            session_title=session_title,
            agent_type=agent_type,
            exchange_number=exchange_number,
        )
        await asyncio.to_thread(self._log.append, activity)

    async def read(self, day: str) -> list[Activity]:
        """What was logged on that day of UTC, such as 2026-11-23, oldest first.

        ActRefusedError: only for a trusted module or one that may read the whole vault, and not on
        behalf of a key that is limited to some paths.
        """
        if self._caller().checked().grant.is_limited or not self._reads_all:
            raise ActRefusedError(
                f"the module {self._module} may not read the activity log here: it quotes any "
                "note, so it is for trusted modules, those that may read the whole vault, and "
                "keys that are not limited to some paths"
            )
        return await asyncio.to_thread(self._log.read, day)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentCall:
    """On whose behalf the code works now.

    `run` is the id of the agent's run that called a tool, or None: a person, the clock or another
    module called. `is_strangers`: strangers' text led to it, so what it writes is marked. `key` is
    the id of the API key that asked; empty for a person at the machine, a schedule and the module
    itself. `is_limited`: it reaches only some paths of the vault. `own_run` is the id of the run
    that this call's writes are recorded as, which `parachute undo` takes back; None before its
    first write.
    """

    run: str | None
    is_strangers: bool = False
    key: str = ""
    is_limited: bool = False
    own_run: str | None = None


class Services(Protocol):
    """What a `Module` uses; its methods of the same names say what each does and raises."""

    name: str
    config: Mapping[str, object]
    log: logging.Logger
    vault: GrantedVault
    folders: FolderAccess
    state: StateAccess
    has_model: bool
    schedules: ScheduleAccess
    runs: RunAccess
    activity: ActivityAccess

    @property
    def data_folder(self) -> Path: ...

    @property
    def current_call(self) -> CurrentCall: ...

    def on_behalf_of(
        self, person: str, *, is_strangers: bool = False
    ) -> AbstractContextManager[None]: ...

    def publish(self, event: str, data: Mapping[str, object]) -> None: ...

    def get_interface(self, name: str) -> object | None: ...

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str: ...

    async def resolve_suggestion(self, suggestion_id: str, decision: str) -> str: ...
