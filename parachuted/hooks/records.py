"""What people hear of hooks: which fail and why, how often each ran, and the last runs with input
and output, to inspect and to run again.
"""

from __future__ import annotations

import json
import logging
import re
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from parachuted.errors import StorageFailedError
from parachuted.hooks.hook import Hook
from parachuted.hooks.hook_event import CLAUDE_NAMES
from parachuted.hooks.runner import ProcessResult
from parachuted.state import Database
from parachuted.texts.adapters import late_adapter
from parachuted.texts.times import Time, time_of

log = logging.getLogger(__name__)

_ERRORS_KEPT = 100
_ELSEWHERE = "it does not run; `parachute hooks list`, on its machine, says why"
_OWN_EVENTS = frozenset({"hook.failed", "vault.problem"})
_MOST_RUNS = 200
_MOST = 64 * 1024
_ID = re.compile("h([0-9]{8,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookError:
    hook: str
    message: str
    timestamp: datetime
    event: str = ""


@dataclass(slots=True, kw_only=True)
class HookCounts:
    runs: int = 0
    failures: int = 0
    slowest_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookStatus:
    """`problem`: why it does not run; that and `command` are for those who may administer."""

    name: str
    events: tuple[str, ...]
    blocking: bool
    description: str | None
    claude: str | None
    source: Literal["settings", "script"]
    matcher: str | None
    is_async: bool
    timeout_s: float
    command: str | None
    problem: str | None
    runs: int
    failures: int
    slowest_ms: float | None

    @property
    def public(self) -> HookStatus:
        """The same for everyone else."""
        problem = None if self.problem is None else _ELSEWHERE
        return replace(self, command=None, problem=problem)


def subject_of(hook_id: str) -> str:
    return f"hooks:{hook_id}"


class HookReporter:
    def __init__(
        self,
        clock: Callable[[], datetime],
        report: Callable[[str, str | None], None],
        on_error: Callable[[HookError], None] | None,
    ) -> None:
        self.errors: deque[HookError] = deque(maxlen=_ERRORS_KEPT)
        self._clock, self._report, self._on_error = clock, report, on_error
        self._reported: set[str] = set()
        self._counts: dict[str, HookCounts] = {}

    def say(self, subject: str, problem: str | None) -> None:
        if problem is None and subject not in self._reported:
            return
        (self._reported.discard if problem is None else self._reported.add)(subject)
        self._report(subject, problem)

    def forget_all_but(self, subjects: Collection[str]) -> None:
        for subject in self._reported.difference(subjects):
            self.say(subject, None)

    def status_of(self, hook: Hook, problem: str | None) -> HookStatus:
        return HookStatus(
            name=hook.id,
            events=(hook.event,),
            blocking=hook.may_block,
            description=hook.description,
            claude=CLAUDE_NAMES.get(hook.event),
            source=hook.source,
            matcher=hook.matcher,
            is_async=hook.is_async,
            timeout_s=hook.timeout_s,
            command=hook.command,
            problem=problem,
            **asdict(self._counts.get(hook.id, HookCounts())),
        )

    def note_run(self, hook_id: str, event: str, took_ms: float, failure: str | None) -> None:
        """Count a run, and report how it went; of the hooks' own events that would loop."""
        counts = self._counts.setdefault(hook_id, HookCounts())
        counts.runs += 1
        counts.failures += failure is not None
        counts.slowest_ms = max(took_ms, counts.slowest_ms or 0.0)
        if failure is not None:
            self.fail(hook_id, event, failure)
        if event not in _OWN_EVENTS:
            self.say(subject_of(hook_id), failure)

    def fail(self, hook: str, event: str, message: str) -> None:
        error = HookError(hook=hook, message=message, timestamp=self._clock(), event=event)
        self.errors.append(error)
        log.warning("a hook failed", extra={"hook": hook, "event": event, "problem": message})
        if self._on_error is not None and event not in _OWN_EVENTS:
            self._on_error(error)


@dataclass(frozen=True, kw_only=True)
class HookRun:
    """`decision`: what its answer came to, in a word and a reason."""

    id: str
    hook: str
    event: str
    at: Time
    decision: str
    exit_code: int | None
    timed_out: bool
    problem: str | None
    took_ms: float


@dataclass(frozen=True, kw_only=True)
class HookRunRecord(HookRun):
    """The same with what went in and came out, each at most 64 KB; `cut` names longer ones."""

    stdin: str
    stdout: str
    stderr: str
    cut: tuple[str, ...] = ()


_RECORD = late_adapter(HookRunRecord)


class HookRunRecorder:
    """The last runs, over restarts, in the private home, since they hold texts of notes. A power
    cut may lose the latest. May be used from any thread.
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(
            path,
            label="the record of hooks' runs",
            loss="earlier runs of hooks cannot be shown",
            migrations={1: "CREATE TABLE runs (number INTEGER PRIMARY KEY, document TEXT);"},
            is_derived=True,
        )

    def add(
        self, hook: Hook, at: datetime, stdin: bytes, ran: ProcessResult, decision: str
    ) -> HookRunRecord:
        """Record a run, and forget the oldest. A disk error is only logged: the hook has run."""
        texts = {"stdin": stdin, "stdout": ran.stdout, "stderr": ran.stderr}
        record = HookRunRecord(
            id="",
            hook=hook.id,
            event=hook.event,
            at=time_of(at),
            decision=decision,
            exit_code=ran.exit_code,
            timed_out=ran.timed_out,
            problem=ran.problem,
            took_ms=round(ran.took_ms, 3),
            **{name: text[:_MOST].decode("utf-8", "replace") for name, text in texts.items()},
            cut=tuple(name for name, text in texts.items() if len(text) > _MOST),
        )
        document = _RECORD().dump_json(record, exclude={"id"}).decode()
        try:
            with self._database.write() as database:
                sql = "INSERT INTO runs (document) VALUES (?)"
                number = database.execute(sql, (document,)).lastrowid or 0
                database.execute("DELETE FROM runs WHERE number <= ?", (number - _MOST_RUNS,))
        except StorageFailedError as error:
            log.warning("a hook's run could not be recorded", extra={"error": error.message})
            return record
        return replace(record, id=_id(number))

    def last(self, count: int) -> list[HookRun]:
        """The newest first."""
        sql = "SELECT number, document FROM runs ORDER BY number DESC LIMIT ?"
        return [_record(*row) for row in self._database.rows(sql, (count,))]

    def get(self, record_id: str) -> HookRunRecord | None:
        if (match := _ID.fullmatch(record_id)) is None:
            return None
        sql = "SELECT number, document FROM runs WHERE number = ?"
        rows = self._database.rows(sql, (int(match[1]),))
        return _record(*rows[0]) if rows else None

    def close(self) -> None:
        self._database.close()


def _id(number: int) -> str:
    return f"h{number:08}"


def _record(number: int, document: str) -> HookRunRecord:
    return _RECORD().validate_python({**json.loads(document), "id": _id(number)})
