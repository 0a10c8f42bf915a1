"""What an agent is asked to do, with which tools, what people say to it meanwhile, and the steps
that it reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from parachuted.access.agent_config import SandboxConfig
from parachuted.access.grant import Grant, Network
from parachuted.agents.extract import LinkStyle
from parachuted.errors import ActRefusedError, HookRefusedError, ParachuteError

MOST_WAITING = 20
LONGEST_TEXT = 100_000


class ConversationInput:
    """Of one run. All on the event loop."""

    def __init__(self) -> None:
        self._texts: asyncio.Queue[str] = asyncio.Queue()
        self._open: dict[str, Callable[[object], bool]] = {}
        self._is_closed = False

    def inject(self, text: str) -> bool:
        """Say that to the agent as soon as it listens; False: the run has ended, or is about to.

        Raises ActRefusedError for what is empty or too long, and where too much waits already.
        """
        if not text.strip() or len(text) > LONGEST_TEXT:
            raise ActRefusedError(f"a message should have 1 to {LONGEST_TEXT:,} characters")
        if self._is_closed:
            return False
        if self._texts.qsize() >= MOST_WAITING:
            raise ActRefusedError(f"{MOST_WAITING} messages wait for the agent already")
        self._texts.put_nowait(text)
        return True

    async def next_text(self) -> str:
        return await self._texts.get()

    @property
    def has_text(self) -> bool:
        """Whether something was said that was not taken yet."""
        return not self._texts.empty()

    def expect(self, name: str, take: Callable[[object], bool]) -> None:
        """An answer to that question is expected; `take` gets it, and returns whether it still
        waited.
        """
        self._open[name] = take

    def forget(self, name: str) -> None:
        self._open.pop(name, None)

    def answer(self, name: str, value: object) -> bool:
        """Answer a question by its id; False: none of that id waits.

        Raises ActRefusedError for an answer that does not fit; the question waits on then.
        """
        take = self._open.get(name)
        if take is None:
            return False
        taken = take(value)
        self.forget(name)
        return taken

    def reopen(self) -> None:
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        self._open.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool answers; an error is for the agent to read, and has changed nothing.

    `hook_refused`: a hook refused the write.

    `response` is the answer as the CLI's own tool shapes it.
    """

    text: str
    is_error: bool = False
    hook_refused: bool = False
    response: object = None

    @classmethod
    def of_error(cls, error: ParachuteError) -> ToolResult:
        return cls(
            text=error.message, is_error=True, hook_refused=isinstance(error, HookRefusedError)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A thing an agent may do.

    `schema` is the JSON schema of the arguments; `call` never raises for bad ones. `server` is the
    MCP server that the model sees it on; the name of a tool of someone else's begins with that.
    """

    name: str
    description: str
    schema: Mapping[str, object]
    call: Callable[[Mapping[str, object]], Awaitable[ToolResult]]
    server: str = "parachute"

    @property
    def name_at_server(self) -> str:
        return self.name.removeprefix(f"{self.server}__")

    @property
    def full_name(self) -> str:
        """What the model calls it by, such as `mcp__vault__read_note`."""
        return f"mcp__{self.server}__{self.name_at_server}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """When a run is ended: seconds of wall clock, answers of the model, US dollars."""

    timeout_s: float
    max_turns: int
    max_cost_usd: float


ChangeKind: TypeAlias = Literal["created", "modified", "moved", "deleted", "ignored", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedNote:
    """A note that changed since the watcher last reviewed it.

    `units` are section names, and frontmatter keys as `@key`. `source` is its path when the
    difference began, if it has moved since; `target` its path now, if the watcher does not watch
    that. `title` and `news`, the changed parts as `find_news` tells them, are plain texts, found
    without a model.
    """

    path: str
    kind: ChangeKind
    units: tuple[str, ...] = ()
    diff: str = ""
    source: str | None = None
    target: str | None = None
    title: str = ""
    news: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The daemon's own folder for one run's container; its name is the run's in the engine.

    `notes` and `outside` are the archives that /vault and /outside are filled with before the agent
    begins, `returned` is what /vault held when it had ended, with which its next container begins;
    there is none where /vault cannot be written. `sockets` is seen as /sockets, by
    which the agent reaches the gateway and the proxy, and cannot be written there.
    """

    path: Path

    @property
    def sockets(self) -> Path:
        return self.path / "s"  # a short name: the path of a socket may have 107 bytes

    @property
    def notes(self) -> Path:
        return self.path / "notes.tar"

    @property
    def outside(self) -> Path:
        return self.path / "outside.tar"

    @property
    def returned(self) -> Path:
        return self.path / "returned.tar"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSandbox:
    """The container of one run. `network` is what the filtering proxy lets through."""

    config: SandboxConfig
    folder: RunFolder
    network: Network = "none"

    @property
    def is_writable(self) -> bool:
        return self.config.workspace_access == "rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeTools:
    """The CLI's own tools, which run only in a sandbox.

    `before` returns an objection to a call, or None; `after` gets its result, and returns what the
    agent is to know besides.
    """

    tools: tuple[str, ...]
    sandbox: RunSandbox
    before: Callable[[str, Mapping[str, object]], Awaitable[str | None]]
    after: Callable[[str, Mapping[str, object], ToolResult], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFile:
    """A picture or a document that goes with the prompt, as the model gets it."""

    path: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionAnswer:
    """What is said before the older part of a session is summed up: the objection that stops it,
    or None, and instructions for the summary.
    """

    objection: str | None = None
    instructions: str = ""


Compacting: TypeAlias = Callable[[str, str | None], Awaitable[CompactionAnswer]]
"""Asked with what brought it about, `auto` or `manual`, and the instructions there are."""


async def _as_it_is(_trigger: str, _instructions: str | None) -> CompactionAnswer:
    return CompactionAnswer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run's work.

    `id` is the run's, `watcher` the vault path of the note to keep current, `at` is in UTC. `agent`
    and `causes` are charged with the cost. `native` is None for an agent that has only our tools.
    `ended` is called after each tool call: why the model must not be asked again, or None.
    `watched` is the number of watched notes, which may exceed those its tools list; `links` is the
    vault's link style, if it sets one; `compacting` is asked before the session's older part is
    summed up; `generated` are the lines that the last run left in the
    generated section, if known.

    `conversation` is what a person says while the run goes on; with it, the backend yields words as
    they come from the model. `files` go with the prompt. `history` is what was said before, for a
    backend that cannot go on with `session_id`. `pool` is the budget that pays.

    `hold` registers what ends a process that outlasts the run, which is called where the run would
    be ended, and returns what takes that back; None: nothing outlasts it. `grant` is what the run
    was granted: such a process serves only runs that were granted the same.
    """

    id: str
    watcher: str
    system_prompt: str
    prompt: str
    tools: tuple[Tool, ...]
    limits: RunLimits
    changes: tuple[ChangedNote, ...]
    at: datetime
    session_id: str | None = None
    agent: str = "curator"
    causes: tuple[str, ...] = ()
    model: str | None = None
    native: NativeTools | None = None
    ended: Callable[[], str | None] = lambda: None
    compacting: Compacting = _as_it_is
    watched: int = 0
    links: LinkStyle | None = None
    generated: tuple[str, ...] | None = None
    conversation: ConversationInput | None = None
    files: tuple[PromptFile, ...] = ()
    history: str = ""
    pool: Literal["work", "conversation"] = "work"
    hold: Callable[[Callable[[], None]], Callable[[], None]] | None = None
    grant: Grant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStep:
    """The agent says something."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStep:
    """The agent called a tool and got its answer; `id` is the call's, where the backend has one."""

    tool: str
    arguments: Mapping[str, object]
    result: ToolResult
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """A part of a text, as it comes from the model; the whole follows as a `TextStep`."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """A part of what the model thinks, as it comes."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseStep:
    """The model asks for a tool, which has not run yet."""

    id: str
    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStep:
    """The session that the run goes on in; `is_resumed`: it is the one that was asked for, with all
    that was said there. `tools` are what the agent can call, `model` is which one answers, where
    the backend says so.
    """

    session_id: str
    is_resumed: bool
    tools: tuple[str, ...] = ()
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageStep:
    """What the run took until now, in tokens and US dollars; `input_tokens` counts those that were
    read from the cache too.

    `context_tokens` is what the model had before it in its latest answer, with that answer.
    """

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cost_usd: float
    context_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionStep:
    """The agent asks the person, and waits for an answer, `{question: answer}`.

    Each of `questions` has `question`, `header`, `options` (of `label` and `description`) and
    `multiSelect`, as the tool AskUserQuestion has them.
    """

    id: str
    questions: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionStep:
    """The agent asks for more than it was granted, and waits for an answer: `allow` (this once),
    `deny`, or `{"pattern": one of patterns}` for as long as the session lasts.
    """

    id: str
    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The account of a run, also of a failed run that cost something.

    Of an agent that was ended before it reported its cost, `cost_usd` is an upper bound.
    `of_run`: it includes the cost of earlier attempts.
    """

    cost_usd: float
    input_tokens: int
    output_tokens: int
    turns: int
    session_id: str | None = None
    of_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What a run came to: the agent's last words, what it changed (`changed`, `unchanged`,
    `suggested`), the session to go on with, its cost in US dollars, and its suggestions' ids.

    `warning` is what it had to do without.
    """

    text: str
    run_id: str
    outcome: str
    session_id: str | None = None
    cost_usd: float = 0.0
    suggestions: tuple[str, ...] = ()
    warning: str | None = None


Step: TypeAlias = (
    TextStep
    | ToolCallStep
    | TextDelta
    | ThinkingDelta
    | ToolUseStep
    | SessionStep
    | UsageStep
    | QuestionStep
    | PermissionStep
    | RunResult
)


PASSING_STEPS = (
    TextDelta,
    ThinkingDelta,
    ToolUseStep,
    SessionStep,
    UsageStep,
    QuestionStep,
    PermissionStep,
)
"""What is of use while a run goes on, and is not kept."""


class Backend(Protocol):
    name: str

    def run(self, job: Job) -> AsyncIterator[Step]:
        """Do the job and yield what happens, `RunResult` last.

        Raises AgentUnavailableError when it could not begin, AgentFailedError when it did not end
        well; what it cost until then is yielded first. Leave the iterator early only through
        `contextlib.aclosing`, so that the agent ends with it.
        """
        ...

    async def close(self) -> None: ...
