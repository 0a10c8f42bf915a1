"""Job: what an agent is asked to do, what people say to it meanwhile, and the steps it reports."""

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
        """False: the run has ended, or is about to. Raises ActRefusedError."""
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
        return not self._texts.empty()

    def expect(self, name: str, take: Callable[[object], bool]) -> None:
        """`take` gets the answer to that question, and returns whether it still waited."""
        self._open[name] = take

    def forget(self, name: str) -> None:
        self._open.pop(name, None)

    def answer(self, name: str, value: object) -> bool:
        """False: none waits. Raises ActRefusedError for what does not fit; it waits on."""
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
    """An error has changed nothing. `response` is the answer as the CLI's own tool shapes it,
    `arguments` what the call was made with where a hook changed them.
    """

    text: str
    is_error: bool = False
    hook_refused: bool = False
    response: object = None
    arguments: Mapping[str, object] | None = None

    @classmethod
    def refusal(cls, text: str) -> ToolResult:
        return cls(text=text, is_error=True)

    @classmethod
    def of_error(cls, error: ParachuteError) -> ToolResult:
        return cls(
            text=error.message, is_error=True, hook_refused=isinstance(error, HookRefusedError)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """`schema` is the JSON schema of the arguments; `call` never raises for bad ones. `server` is
    the MCP server that the model sees it on; the name of a tool of someone else's begins with that.
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

    `units` are section names, and frontmatter keys as `@key`. `source` is where it was when the
    difference began, `target` where it is now if that is not watched. `title` and `news` are plain
    texts, found without a model.
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

    `notes` and `outside` are the archives that /vault and /outside are filled with; `returned` is
    what a writable /vault held at the end, with which the run's next container begins; `sockets` is
    seen as /sockets, read-only.
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

    def make(self) -> None:
        """Only this user can come near it; the sockets are readable in the container."""
        self.path.mkdir(mode=0o700, parents=True)
        self.sockets.mkdir()
        self.sockets.chmod(0o755)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSandbox:
    """`network` is what the filtering proxy lets through."""

    config: SandboxConfig
    folder: RunFolder
    network: Network = "none"

    @property
    def is_writable(self) -> bool:
        return self.config.workspace_access == "rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeTools:
    """The CLI's own tools. `before` may object to a call, `after` adds what to tell the agent; the
    last argument of both is the call's id.
    """

    tools: tuple[str, ...]
    sandbox: RunSandbox
    before: Callable[[str, Mapping[str, object], str], Awaitable[str | None]]
    after: Callable[[str, Mapping[str, object], ToolResult, str], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFile:
    path: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run's work. `watcher` is the note to keep current, `at` is in UTC.

    `native` None: only our tools. `ended` is called after each tool call: why the model must not be
    asked again, or None. `watched` may exceed the notes that its tools list.

    With a `conversation` the backend yields words as they come. `history` is for a backend that
    cannot go on with `session_id`. `pool` is the budget that pays. `hold` registers what ends a
    process that outlasts the run, and returns what takes that back; such a process serves only runs
    of the same `grant`.
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
    watched: int = 0
    links: LinkStyle | None = None
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
    """The session that the run goes on in ("" where no later run can); `is_resumed`: it is the one
    that was asked for, with all that was said there. `tools` are what the agent can call, `model`
    is which one answers, where the backend says so.
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
    """The account of a run, also of a failed one. Of an agent that was ended before it reported its
    cost, `cost_usd` is an upper bound. `of_run`: it includes earlier attempts.
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


PassingStep: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ToolUseStep
    | SessionStep
    | UsageStep
    | QuestionStep
    | PermissionStep
)
"""What is of use while a run goes on, and is not kept."""

Step: TypeAlias = TextStep | ToolCallStep | PassingStep | RunResult


class Backend(Protocol):
    name: str

    def run(self, job: Job) -> AsyncIterator[Step]:
        """Do the job and yield what happens, `RunResult` last, also before an error.

        Raises AgentUnavailableError when it could not begin, AgentFailedError when it did not end
        well. Leave the iterator early only through `contextlib.aclosing`, so that the agent ends
        with it.
        """
        ...

    async def close(self) -> None: ...
