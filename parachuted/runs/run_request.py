"""Run request: what one run of an agent is to be; what its caller adds may only narrow it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from parachuted.access.agent_config import WIDEST, AgentConfig, AgentNarrowing, module_of_agent
from parachuted.access.caller import Caller
from parachuted.access.grant import Entry, narrowing_configs
from parachuted.access.strangers import Taint
from parachuted.agents.job import ConversationInput, RunLimits, Tool
from parachuted.errors import ActRefusedError, PathRefusedError
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.run import RunFollower
from parachuted.tasks import Task
from parachuted.vault import VaultPath, new_id

RunKind: TypeAlias = Literal["run_agent", "start", "conversation"]


def _folder(text: str) -> str:
    try:
        folder = str(VaultPath.parse(text.rstrip("/")))
    except PathRefusedError as error:
        raise ValueError(error.message) from error
    if not {"*", "?", "$"}.isdisjoint(folder):  # it becomes part of patterns
        raise ValueError("should be a folder of the vault")
    return folder


def _folder_if_valid(text: str) -> str | None:
    """A session's file can say anything."""
    with contextlib.suppress(PathRefusedError):
        return str(VaultPath.parse(text.rstrip("/")))
    return None


def _narrowing(narrowing: AgentNarrowing) -> AgentNarrowing:
    narrowing_configs(narrowing)  # it raises for capabilities that do not exist
    return narrowing


_Number: TypeAlias = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]
_Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=2_000)]
_LongText: TypeAlias = Annotated[str, Field(max_length=1_000_000)]
_Model: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/\[\]-]{0,199}$")]
_Paths: TypeAlias = Annotated[tuple[_Text, ...], Field(max_length=100)]


@checked_dataclass(
    frozen=True, slots=True, kw_only=True, config=ConfigDict(defer_build=True, extra="forbid")
)
class RunOptions:
    """What a caller may set. Of a run that is followed: `session_id` to go on with, `budget`.

    The rest is of conversations: `history` was said before, for a session that cannot be resumed;
    `context` goes ahead of the prompt and is not the person's words. Hooks know the conversation by
    `conversation_id`, and that it is about `conversation_folder`, which gives the agent no right.
    """

    working_directory: Annotated[str, AfterValidator(_folder)] | None = None
    origin: Literal["you", "agent", "bot", "imported", "web", "stranger"] = "you"
    narrowing: Annotated[AgentNarrowing, AfterValidator(_narrowing)] = WIDEST
    timeout_s: _Number | None = None
    max_turns: _Number | None = None
    max_cost_usd: _Number | None = None
    session_id: str | None = None
    budget: Literal["conversation"] | None = None
    model: _Model | None = None
    system_prompt: _LongText | None = None
    attachments: _Paths = ()
    context_folders: _Paths = ()
    history: _LongText = ""
    context: _LongText = ""
    conversation_id: _Text | None = None
    conversation_folder: Annotated[_Text, AfterValidator(_folder_if_valid)] | None = None

    def limits(self, most: RunLimits) -> RunLimits:
        return RunLimits(
            timeout_s=min(self.timeout_s or most.timeout_s, most.timeout_s),
            max_turns=max(1, int(min(self.max_turns or most.max_turns, most.max_turns))),
            max_cost_usd=min(self.max_cost_usd or most.max_cost_usd, most.max_cost_usd),
        )


_OPTIONS = TypeAdapter(RunOptions)
_OF_ANY = ("working_directory", "origin", "narrowing", "timeout_s", "max_turns", "max_cost_usd")
_ALLOWED: Mapping[RunKind, tuple[str, ...]] = {
    "run_agent": _OF_ANY,
    "start": (*_OF_ANY, "session_id", "budget"),
    "conversation": tuple(RunOptions.__dataclass_fields__),
}


def read_options(options: Mapping[str, object], kind: RunKind = "run_agent") -> RunOptions:
    """None stands for one that is left out. Raises ActRefusedError."""
    call = "run_agent" if kind == "run_agent" else "start"
    named = {name: value for name, value in options.items() if value is not None}
    if kind == "conversation" and named.get("working_directory") == "":
        del named["working_directory"]
    if unknown := [str(name) for name in named if name not in _ALLOWED[kind]]:
        raise ActRefusedError(f"{call} does not take {', '.join(unknown)[:200]}")
    try:
        return _OPTIONS.validate_python(named)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ActRefusedError(f"{call}: {place}: {first['msg']}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """An agent as it may be at most.

    `name` is `module/agent`, or one word for the core's own; `bounds` what its module may touch;
    `calls` the tools of modules that it may call; `tools` its own, whose reading marks the run.
    Without `has_tools` it only answers.
    """

    name: str
    config: AgentConfig
    bounds: ModuleBounds
    system_prompt: str
    calls: tuple[str, ...] = ()
    tools: Callable[[Taint], tuple[Tool, ...]] | None = None
    does_without_shell: bool = False
    has_tools: bool = True

    @property
    def module(self) -> str | None:
        return module_of_agent(self.name)

    @property
    def who(self) -> str:
        if self.module is None:
            return f"the {self.name} agent"
        return f"the agent {self.name.removeprefix(f'{self.module}/')} of the module {self.module}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run to be. `overrides` are what a person took from the agent; `is_strangers`: of the
    prompt; `input`, of a conversation, is what the person says meanwhile.
    """

    definition: AgentDefinition
    prompt: str
    entry: Entry
    limits: RunLimits
    pool: Literal["work", "conversation"] = "work"
    options: RunOptions = field(default_factory=RunOptions)
    overrides: tuple[AgentConfig, ...] = ()
    is_strangers: bool = False
    session: str | None = None
    caller: Caller = field(default_factory=Caller)
    follower: RunFollower | None = None
    input: ConversationInput | None = None

    @property
    def narrowings(self) -> tuple[AgentConfig, ...]:
        return (*self.overrides, *narrowing_configs(self.options.narrowing))

    @property
    def may_read(self) -> bool:
        """Whether it has capabilities for notes at all, whichever those are."""
        return all(config.may_read for config in (self.definition.config, *self.narrowings))

    @property
    def may_write(self) -> bool:
        return all(config.may_write for config in (self.definition.config, *self.narrowings))

    def task(self, now: datetime) -> Task:
        """What stands for the run where a curator's has a task."""
        definition = self.definition
        return Task(
            id=new_id("t", now),
            watcher=f"Modules/{definition.module}" if definition.module else definition.name,
            state="running",
            causes=self.caller.causes_at(now),
            parents=(parent,) if (parent := self.caller.chain.led_by) else (),
            first_at=now,
            last_at=now,
            due_at=now,
            run=new_id("r", now),
        )
