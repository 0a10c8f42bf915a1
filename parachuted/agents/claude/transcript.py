"""Turns the CLI's messages into steps and a run's result, and reads its own records of sessions."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    Message,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from parachuted.agents.gateway import is_passing
from parachuted.agents.job import (
    RunLimits,
    RunResult,
    SessionStep,
    Step,
    TextDelta,
    TextStep,
    ThinkingDelta,
    ToolCallStep,
    ToolResult,
    ToolUseStep,
    UsageStep,
)
from parachuted.errors import AgentFailedError, AgentStoppedError, AgentUnavailableError
from parachuted.home_files.private import replace_private

_SYNTHETIC = "<synthetic>"
_REFUSED = "refusal"
_API_ERROR = "API Error: "
_REASON_CHARS = 500
# and a gateway to look at, which is the daemon's own: Claude Code adds it
_ADVICE = " This is a server-side issue"
_LOGIN_REFUSED = frozenset({401, 403})
_TRIES = 2
_COST_DIGITS = 9
_INPUTS = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptUsage:
    """Money in US dollars and tokens, summed over a session's life."""

    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


def sum_usage(cost_usd: object, models: object) -> TranscriptUsage:
    usages = (
        [usage for usage in models.values() if isinstance(usage, Mapping)]
        if isinstance(models, Mapping)
        else []
    )
    return TranscriptUsage(
        cost_usd=float(cost_usd) if isinstance(cost_usd, int | float) else 0.0,
        input_tokens=sum(_whole(usage.get(name)) for usage in usages for name in _INPUTS),
        output_tokens=sum(_whole(usage.get("outputTokens")) for usage in usages),
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


class ConversationUsage:
    """What a conversation's run took until now, by the events of its stream."""

    def __init__(self) -> None:
        self._done, self._present = _Counts(), _Counts()

    def read(self, event: Mapping[str, object]) -> UsageStep | None:
        kind = event.get("type")
        if kind in {"message_start", "message_delta"}:
            holder = event.get("message") if kind == "message_start" else event
            usage = holder.get("usage") if isinstance(holder, Mapping) else None
            if isinstance(usage, Mapping):
                self._present = self._present.with_latest(usage)
            return None
        if kind != "message_stop":
            return None
        answer, self._present = self._present, _Counts()
        self._done = done = self._done.plus(answer)
        return UsageStep(
            input_tokens=done.prompt,
            output_tokens=done.output,
            cache_read_tokens=done.cache_read,
            cost_usd=0.0,
            context_tokens=answer.prompt + answer.output,
        )


@dataclass(frozen=True, slots=True)
class _Counts:
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_written: int = 0

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_written

    def with_latest(self, usage: Mapping[str, object]) -> _Counts:
        """Figures that come later hold, and those that do not come stay."""
        return _Counts(
            _whole(usage.get("input_tokens")) or self.input,
            _whole(usage.get("output_tokens")) or self.output,
            _whole(usage.get("cache_read_input_tokens")) or self.cache_read,
            _whole(usage.get("cache_creation_input_tokens")) or self.cache_written,
        )

    def plus(self, other: _Counts) -> _Counts:
        return _Counts(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_written + other.cache_written,
        )


class Transcript:
    """One run's messages, read in order.

    `before` is what its session had cost until then, which the CLI counts in. In a conversation
    the words are steps as they come; `resumed` is the session that it goes on with, if any. `names`
    are those of our tools, by what the model calls them.
    """

    def __init__(
        self,
        limits: RunLimits,
        before: TranscriptUsage,
        *,
        is_conversation: bool = False,
        resumed: str | None = None,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._limits = limits
        self._before = before
        self._usage = ConversationUsage() if is_conversation else None
        self._resumed, self._names = resumed, names
        self.session: str | None = None
        self._answers: set[str] = set()
        self._open: dict[str, ToolUseBlock] = {}
        self._waits: AgentStoppedError | None = None
        self.asked = False
        self.ended = False

    def read(self, message: Message) -> Iterator[Step]:
        """Yield the steps that a message means; raises AgentFailedError, after the account, for one
        that ends the run badly.
        """
        if isinstance(message, AssistantMessage) and message.model != _SYNTHETIC:
            yield from self._read_answer(message)
        elif isinstance(message, UserMessage) and isinstance(message.content, list):
            yield from self._read_results(message.content)
        elif isinstance(message, StreamEvent) and message.parent_tool_use_id is None:
            yield from self._read_event(message.event)
        elif isinstance(message, SystemMessage) and message.subtype == "api_retry":
            self._read_retry(message.data)
        elif isinstance(message, SystemMessage) and message.subtype == "init":
            yield from self._read_start(message.data)
        elif isinstance(message, ResultMessage):
            yield from self._read_end(message)

    @property
    def answered(self) -> bool:
        return bool(self._answers)

    @property
    def interruption(self) -> AgentStoppedError | None:
        """What a run that is cut off now has waited for in the middle of its work: the model, which
        did not answer any more.
        """
        return self._waits

    def account_unfinished(self) -> Iterator[Step]:
        """Yield the account of a run that was cut off after the model had been asked: the most that
        it may have cost.
        """
        if self.asked and not self.ended:
            most = self._limits.max_cost_usd
            yield RunResult(
                cost_usd=most,
                input_tokens=0,
                output_tokens=0,
                turns=len(self._answers),
                at_most=True,
            )

    def _read_answer(self, message: AssistantMessage) -> Iterator[Step]:
        self._answers.add(message.message_id or f"#{len(self._answers)}")
        self._waits = None
        for block in message.content:
            if isinstance(block, TextBlock) and block.text.strip():
                yield TextStep(text=block.text)
            elif isinstance(block, ToolUseBlock):
                self._open[block.id] = block
                if self._usage is not None:
                    yield ToolUseStep(
                        id=block.id,
                        tool=self._name(block.name),
                        arguments=_arguments(block),
                    )

    def _read_start(self, data: Mapping[str, object]) -> Iterator[Step]:
        """Each turn of the CLI begins with its session's name."""
        session = data.get("session_id")
        if self._usage is not None and isinstance(session, str) and session != self.session:
            self.session = session
            tools, model = data.get("tools"), data.get("model")
            yield SessionStep(
                session_id=session,
                is_resumed=session == self._resumed,
                tools=tuple(
                    self._name(name)
                    for name in (tools if isinstance(tools, list) else ())
                    if isinstance(name, str)
                ),
                model=model if isinstance(model, str) else "",
            )

    def _read_event(self, event: Mapping[str, object]) -> Iterator[Step]:
        """Words as they come, and what they took."""
        delta = event.get("delta")
        if self._usage is None:
            return
        if event.get("type") == "content_block_delta" and isinstance(delta, Mapping):
            text, thought = delta.get("text"), delta.get("thinking")
            if isinstance(text, str) and text:
                yield TextDelta(text=text)
            elif isinstance(thought, str) and thought:
                yield ThinkingDelta(text=thought)
        elif (usage := self._usage.read(event)) is not None:
            yield usage

    def _read_results(self, blocks: Sequence[object]) -> Iterator[Step]:
        for block in blocks:
            call = (
                self._open.pop(block.tool_use_id, None)
                if isinstance(block, ToolResultBlock)
                else None
            )
            if call is not None and isinstance(block, ToolResultBlock):
                yield ToolCallStep(
                    tool=self._name(call.name),
                    arguments=_arguments(call),
                    result=_result(block),
                    id=call.id,
                )

    def _name(self, full: str) -> str:
        return self._names.get(full, full)

    def _read_retry(self, data: Mapping[str, object]) -> None:
        """Give up early on a model that has not answered once: the task waits better than a process
        does.
        """
        status = data.get("error_status")
        unavailable = _unavailable(
            status if isinstance(status, int) else None, str(data.get("error"))
        )
        if self._answers:
            self._waits = AgentStoppedError(unavailable.message)
        elif status in _LOGIN_REFUSED or _whole(data.get("attempt")) >= _TRIES:
            raise unavailable

    def _read_end(self, message: ResultMessage) -> Iterator[Step]:
        self.ended = True
        total = sum_usage(message.total_cost_usd, message.model_usage)
        yield RunResult(
            cost_usd=max(0.0, round(total.cost_usd - self._before.cost_usd, _COST_DIGITS)),
            input_tokens=max(0, total.input_tokens - self._before.input_tokens),
            output_tokens=max(0, total.output_tokens - self._before.output_tokens),
            turns=len(self._answers),
            session_id=message.session_id
            if message.stop_reason != _REFUSED
            else None,  # it would refuse again
        )
        failure = self._find_failure(message)
        if failure is not None:
            raise failure

    def _find_failure(self, message: ResultMessage) -> AgentFailedError | None:
        if message.subtype == "error_max_turns":
            return AgentFailedError(
                f"the agent was still at work after {self._limits.max_turns} turns"
            )
        if message.subtype == "error_max_budget_usd":
            return AgentFailedError(f"the agent had used up its ${self._limits.max_cost_usd:g}")
        if not message.is_error:
            return None
        reason = ("; ".join(message.errors or ()) or message.result or message.subtype)[
            :_REASON_CHARS
        ]
        if message.stop_reason == _REFUSED:
            return AgentFailedError(
                f"the model refused to answer: {reason.removeprefix(_API_ERROR)}"
            )
        if message.terminal_reason != "api_error" or not is_passing(message.api_error_status):
            return AgentFailedError(f"the agent failed: {reason}")
        return self._interrupted(message.api_error_status, reason)

    def _interrupted(self, status: int | None, reason: str) -> AgentFailedError:
        """What passes: the work is done again later. Half of it may have been done."""
        unavailable = _unavailable(status, reason)
        return AgentStoppedError(unavailable.message) if self._answers else unavailable


def _arguments(call: ToolUseBlock) -> dict[str, Any]:
    return call.input if isinstance(call.input, dict) else {}


def _unavailable(status: int | None, reason: str) -> AgentUnavailableError:
    if status in _LOGIN_REFUSED:
        return AgentUnavailableError(
            f"the model refused the login ({status}); see `parachute auth status`"
        )
    what = f"answered {status}" if status else "could not be reached"
    ours = reason.partition(_ADVICE)[0].removeprefix(f"API Error: {status} ")
    return AgentUnavailableError(f"the model {what}: {ours}"[:_REASON_CHARS])


def _result(block: ToolResultBlock) -> ToolResult:
    content = block.content
    text = (
        content
        if isinstance(content, str)
        else "\n".join(str(part.get("text", "")) for part in content or ())
    )
    text = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    return ToolResult(text=text, is_error=bool(block.is_error))


log = logging.getLogger(__name__)

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_KIND = b'"type":"cost-state"'
_TAIL = 1024 * 1024


def is_session_id(text: str) -> bool:
    """Whether the text can be a session's name, and nothing else: it becomes part of a path and of
    an argument.
    """
    return _ID.fullmatch(text) is not None


def has_transcript(home: Path, session_id: str) -> bool:
    """Whether a session of that name can be resumed on this machine. Blocks on the disk."""
    return any((home / ".claude" / "projects").glob(f"*/{session_id}.jsonl"))


def load_spent(home: Path, session_id: str) -> TranscriptUsage:
    """Read what a session had cost when it was last closed; nothing, if that is not known."""
    for path in (home / ".claude" / "projects").glob(f"*/{session_id}.jsonl"):
        for line in reversed(_tail(path).split(b"\n")):
            if _KIND in line:
                return _parse(line)
    return TranscriptUsage()


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read()


def _parse(line: bytes) -> TranscriptUsage:
    try:
        entry = json.loads(line)
    except ValueError:
        return TranscriptUsage()
    return sum_usage(entry.get("totalCostUSD"), entry.get("modelUsage"))


# The CLI names the folder after the one that it works in: /vault in every container.
_IN_BOX = (".claude", "projects", "-vault")
_LIMIT = 64 * 1024 * 1024
_KEEP_S = 30 * 24 * 3600
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SandboxTranscripts:
    """The transcripts in `folder`, which is private; `host_home` is where the sessions of runs
    outside containers are.
    """

    def __init__(self, folder: Path, host_home: Path) -> None:
        self._folder = folder
        self._host_home = host_home

    def bring_in(self, session_id: str, home: Path) -> bool:
        """Put the session's transcript into a container's HOME, before anything runs there; False:
        it is not known. May raise OSError.
        """
        data = self._load(session_id)
        if data is None:
            return False
        owner = home.stat()
        place = home
        for name in _IN_BOX:
            place /= name
            with contextlib.suppress(FileExistsError):
                place.mkdir(mode=0o700)
            os.chown(place, owner.st_uid, owner.st_gid)
        path = place / f"{session_id}.jsonl"
        path.write_bytes(data)
        os.chown(path, owner.st_uid, owner.st_gid)
        return True

    def keep(self, session_id: str, home: Path) -> None:
        """Take the transcript out again, when nothing runs there any more.

        One that is not a plain file of a sane size is left.
        """
        try:
            data = _read_hostile(home, session_id)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private(self._folder / f"{session_id}.jsonl", data)
            self._forget_old()
        except OSError as error:
            log.warning("the agent's session is not kept: %s", error.strerror)

    def _load(self, session_id: str) -> bytes | None:
        name = f"{session_id}.jsonl"
        outside = (self._host_home / ".claude" / "projects").glob(f"*/{name}")
        for path in (self._folder / name, *outside):
            with contextlib.suppress(FileNotFoundError):
                return path.read_bytes()
        return None

    def _forget_old(self) -> None:
        """As the CLI does with those in its own HOME."""
        for path in self._folder.glob("*.jsonl"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - _KEEP_S:
                    path.unlink()


def _read_hostile(home: Path, session_id: str) -> bytes:
    """Read step by step, never through a link, nor from what is not a plain file. Raises
    OSError.
    """
    with contextlib.ExitStack() as opened:
        here = opened.enter_context(_descriptor(str(home), _FOLDER, None))
        for name in _IN_BOX:
            here = opened.enter_context(_descriptor(name, _FOLDER, here))
        file = opened.enter_context(_descriptor(f"{session_id}.jsonl", _FILE, here))
        at = os.fstat(file)
        if not stat.S_ISREG(at.st_mode) or at.st_nlink != 1 or at.st_size > _LIMIT:
            raise OSError(0, "what is there is not a transcript")
        with os.fdopen(os.dup(file), "rb") as stream:
            return stream.read(_LIMIT)


@contextlib.contextmanager
def _descriptor(name: str, flags: int, folder: int | None) -> Iterator[int]:
    opened = os.open(name, flags, dir_fd=folder)
    try:
        yield opened
    finally:
        os.close(opened)
