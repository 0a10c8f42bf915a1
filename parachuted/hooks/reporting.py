"""What people hear of hooks: which fail and why, and how often each ran."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from datetime import datetime

from parachuted.hooks.decision import HookAnswer, too_late
from parachuted.hooks.hook import Hook, HookCounts, HookError, HookStatus, claude_name

log = logging.getLogger(__name__)

_ERRORS_KEPT = 100
_OWN_EVENTS = frozenset({"hook.failed", "vault.problem"})


def subject_of(hook_id: str) -> str:
    """The subject under which a hook's problem is reported."""
    return f"hooks:{hook_id}"


class HookReporter:
    """Counts the runs and passes on the problems of one home's hooks.

    `report` takes a subject and what is wrong with it, or None; `on_error` each failure of a hook.
    """

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
        """What was wrong with any other subject is over: it no longer exists."""
        for subject in self._reported.difference(subjects):
            self.say(subject, None)

    def note_run(self, hook_id: str, event: str, took_ms: float, failure: str | None) -> None:
        """Count a run; log its failure, or that the hook works again.

        Never reported about the hooks' own events, which would loop.
        """
        counts = self._counts.setdefault(hook_id, HookCounts())
        counts.count(took_ms, is_failure=failure is not None)
        if failure is not None:
            self._fail(hook_id, event, failure)
        if event not in _OWN_EVENTS:
            self.say(subject_of(hook_id), failure)

    def note_late(self, event: str, answers: Iterable[HookAnswer]) -> None:
        """Log objections that came too late to count. Those of a broken hook are logged already."""
        for answer in answers:
            if answer.blocks is not None and answer.failure is None:
                self._fail(answer.hook, event, too_late(event, answer.hook, answer.blocks))

    def status_of(self, hook: Hook, problem: str | None) -> HookStatus:
        """The hook's state; `problem` is why it may not run."""
        return HookStatus(
            hook=hook,
            claude=claude_name(hook.event),
            blocking=hook.may_block,
            problem=problem,
            **asdict(self._counts.get(hook.id, HookCounts())),
        )

    def _fail(self, hook: str, event: str, message: str) -> None:
        error = HookError(hook=hook, message=message, timestamp=self._clock(), event=event)
        self.errors.append(error)
        log.warning("a hook failed", extra={"hook": hook, "event": event, "problem": message})
        if self._on_error is not None and event not in _OWN_EVENTS:
            self._on_error(error)
