"""What people hear of hooks: which fail and why, and how often each ran."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Literal

from parachuted.hooks.hook import CLAUDE_NAMES, Hook

log = logging.getLogger(__name__)

_ERRORS_KEPT = 100
_ELSEWHERE = "it does not run; `parachute hooks list`, on its machine, says why"
_OWN_EVENTS = frozenset({"hook.failed", "vault.problem"})


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
    last_ms: float | None = None
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
    last_ms: float | None
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
            command=hook.command or " ".join(hook.argv),
            problem=problem,
            **asdict(self._counts.get(hook.id, HookCounts())),
        )

    def note_run(self, hook_id: str, event: str, took_ms: float, failure: str | None) -> None:
        """Count a run, and report how it went; of the hooks' own events that would loop."""
        counts = self._counts.setdefault(hook_id, HookCounts())
        counts.runs += 1
        counts.failures += failure is not None
        counts.last_ms, counts.slowest_ms = took_ms, max(took_ms, counts.slowest_ms or 0.0)
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
