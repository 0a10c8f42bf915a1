"""Asks hooks before an act, informs them of events, and records the outcome."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.hooks.approvals import HookApprovals, ScriptReview
from parachuted.hooks.decision import (
    ALLOWED,
    HookAnswer,
    HookDecision,
    combine,
    is_too_late,
    outcome_of,
    read_answer,
)
from parachuted.hooks.hook import BLOCKING, Hook, HookOptions, is_meant
from parachuted.hooks.hook_event import HookEvent, document, encode
from parachuted.hooks.loading import HookFile, load_hooks, look
from parachuted.hooks.records import (
    HookError,
    HookReporter,
    HookRunRecord,
    HookRunRecorder,
    HookStatus,
    subject_of,
)
from parachuted.hooks.runner import not_started, run_program

log = logging.getLogger(__name__)

_PASSED_ON = ("PATH", "HOME", "LANG")
_PATH = "/usr/local/bin:/usr/bin:/bin"
_MOST_WAITING = 1_000
_OPTIONS = HookOptions()
_FILES = "hooks:files"
_WAITING = "hooks:waiting"
_STOPPING = HookDecision(
    allowed=False, reason="the daemon is stopping, so the hooks that may object could not be asked"
)


class Hooks:
    """The hooks of one home, for one vault. All on the loop's thread but for `ask_from_thread`.
    `wanted`: the events that a hook is for, or that are refused while its hooks cannot be read.
    """

    def __init__(
        self,
        *,
        home: Path,
        vault: Path,
        runs: Path,
        clock: Callable[[], datetime],
        report: Callable[[str, str | None], None],
        env: Mapping[str, str],
        options: HookOptions = _OPTIONS,
        on_error: Callable[[HookError], None] | None = None,
    ) -> None:
        """`runs` is the file of what is recorded; `on_error` takes each failure of a hook."""
        self._home, self._vault, self._clock, self._options = home, vault, clock, options
        self._approvals, self.recorder = HookApprovals(home), HookRunRecorder(runs)
        self._env = {"PATH": _PATH, **{name: env[name] for name in _PASSED_ON if name in env}}
        self._set = HookFile()
        self._mark: tuple[object, ...] | None = None
        self.wanted: frozenset[str] = frozenset()
        self._waiting: asyncio.Queue[tuple[Hook, HookEvent]] = asyncio.Queue()
        self._reporter = HookReporter(clock, report, on_error)
        self._from_threads: set[asyncio.Task[HookDecision]] = set()
        self._is_closed = False
        self.look()

    @property
    def listed(self) -> tuple[HookStatus, ...]:
        """All hooks and their state, in the order of declaration. Reads the pinned files."""
        return tuple(self._reporter.status_of(hook, self._refusal(hook)) for hook in self.declared)

    @property
    def declared(self) -> Sequence[Hook]:
        return self._set.hooks

    @property
    def problems(self) -> Sequence[str]:
        return self._set.problems

    @property
    def errors(self) -> tuple[HookError, ...]:
        return tuple(self._reporter.errors)

    def look(self) -> None:
        """Read the hooks again if their files have changed; a few system calls otherwise."""
        mark = look(self._home)
        if mark == self._mark:
            return
        self._mark = mark
        places = {name: self._env[name] for name in ("HOME",) if name in self._env}
        self._set = load_hooks(self._home, vault=self._vault, places=places)
        events = frozenset(hook.event for hook in self._set.hooks)
        self.wanted = events | self._set.closed.keys()
        self._reporter.say(_FILES, "; ".join(self._set.problems) or None)
        present = {subject_of(hook.id) for hook in self._set.hooks}
        self._reporter.forget_all_but({_FILES, _WAITING, *present})
        self._check_approvals()

    def wants(self, event: str) -> bool:
        return event in self.wanted

    async def ask(self, hook_event: HookEvent) -> HookDecision:
        event = hook_event.event
        if event not in self.wanted:
            return ALLOWED
        if self._is_closed and event in BLOCKING:
            return _STOPPING
        if (why := self._set.closed.get(event)) is not None:
            reason = f"a hook that guards this cannot be asked: {why}"
            return HookDecision(allowed=False, reason=reason)
        chosen = self.meant_for(hook_event)
        self._put([hook for hook in chosen if hook.is_async], hook_event)
        async with asyncio.TaskGroup() as group:  # which waits for all, also when cancelled
            running = [
                group.create_task(self.run_one(hook, hook_event))
                for hook in chosen
                if not hook.is_async
            ]
        answers = [task.result()[0] for task in running]
        if is_too_late(event):
            self._say_late(answers, event)
        return combine(event, answers)

    def tell(self, hook_event: HookEvent) -> None:
        if hook_event.event in self.wanted:
            self._put(self.meant_for(hook_event), hook_event)

    def ask_from_thread(
        self, hook_event: HookEvent, loop: asyncio.AbstractEventLoop
    ) -> HookDecision:
        """The same as `ask` while the loop runs elsewhere, so never from the loop's own thread."""
        if not self.wants(hook_event.event):
            return ALLOWED
        asking = self._ask_here(hook_event)
        try:
            future = asyncio.run_coroutine_threadsafe(asking, loop)
        except RuntimeError:
            asking.close()
            return _STOPPING
        while True:
            try:
                return future.result(timeout=1.0)
            except concurrent.futures.CancelledError:
                return _STOPPING
            except TimeoutError:
                if not loop.is_running():
                    return _STOPPING

    async def run(self) -> None:
        """Run what nothing waits for, so many at a time as the settings say, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._options.concurrency):
                group.create_task(self._work(), name=f"hooks-{number}")

    async def close(self) -> None:
        self._is_closed = True
        while not self._waiting.empty():
            self._waiting.get_nowait()
        tasks = tuple(self._from_threads)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.recorder.close()

    def meant_for(self, hook_event: HookEvent) -> list[Hook]:
        return [
            hook
            for hook in self._set.hooks
            if hook.event == hook_event.event and is_meant(hook, hook_event)
        ]

    async def run_one(
        self, hook: Hook, hook_event: HookEvent, stdin: bytes | None = None
    ) -> tuple[HookAnswer, HookRunRecord]:
        """Whatever its matcher says; `stdin` in place of the event's own document."""
        stdin = encode(document(hook_event)) if stdin is None else stdin
        if (refusal := self._refusal(hook)) is not None:
            ran = not_started(refusal)
        else:
            ran = await run_program(
                hook.words,
                stdin=stdin,
                env=self._environment(hook_event.event),
                cwd=hook_event.folder,
                timeout_s=hook.timeout_s,
            )
        answer = read_answer(hook, ran, fails_closed=self._options.fails_closed)
        self._reporter.note_run(hook.id, hook_event.event, ran.took_ms, answer.failure)
        if answer.message is not None:
            log.info("a hook says", extra={"hook": hook.id, "words": answer.message})
        outcome = outcome_of(hook, answer)
        return answer, self.recorder.add(hook, self._clock(), stdin, ran, outcome)

    async def replay(self, record_id: str) -> HookRunRecord:
        """Run a hook again on its recorded input. Raises NotFoundError."""
        old = self.recorder.get(record_id)
        if old is None:
            raise NotFoundError(
                f"there is no run {record_id[:80]!r}; `parachute hooks history` shows the last ones"
            )
        if "stdin" in old.cut:
            raise ParachuteError(f"run {record_id} had an input too long to be kept whole")
        hook = self._get(old.hook)
        if hook.event != old.event:
            raise NotFoundError(f"{old.hook} is for {hook.event} now, not for {old.event}")
        hook_event = HookEvent(event=hook.event, at=self._clock(), data={}, vault=self._vault)
        stdin = old.stdin.encode("utf-8", "backslashreplace")
        _, record = await self.run_one(hook, hook_event, stdin)
        return record

    def review(self, name: str) -> list[ScriptReview]:
        return self._approvals.review(self._get(name).files)

    def approve(
        self,
        names: Iterable[str] | None = None,
        shown: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Pin hooks as they are now: those with these ids, or all; returns the newly pinned files.
        Raises NotFoundError, and as `HookApprovals.approve`.
        """
        hooks = self._set.hooks if names is None else list(map(self._get, names))
        files = [file for hook in hooks for file in hook.files]
        found = self._approvals.approve(files, shown=shown)
        self._check_approvals()
        return found

    def _get(self, hook_id: str) -> Hook:
        for hook in self._set.hooks:
            if hook.id == hook_id:
                return hook
        raise NotFoundError(f"there is no hook {hook_id[:80]!r}; `parachute hooks list` shows them")

    def _say_late(self, answers: Iterable[HookAnswer], event: str) -> None:
        for answer in answers:
            if answer.blocks is not None and answer.failure is None:
                late = f"{answer.hook} objects to {event}, which cannot be stopped any more"
                self._reporter.fail(answer.hook, event, f"{late}: {answer.blocks}")

    def _environment(self, event: str) -> dict[str, str]:
        return {
            **self._env,
            "CLAUDE_PROJECT_DIR": str(self._vault),
            "PARACHUTE_VAULT": str(self._vault),
            "PARACHUTE_EVENT": event,
            "PARACHUTE_HOME": str(self._home),
            "PARACHUTE_PYTHON": sys.executable,
        }

    async def _ask_here(self, hook_event: HookEvent) -> HookDecision:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a coroutine runs in one
        self._from_threads.add(task)
        try:
            return await self.ask(hook_event)
        finally:
            self._from_threads.discard(task)

    def _put(self, hooks: Iterable[Hook], hook_event: HookEvent) -> None:
        for hook in () if self._is_closed else hooks:
            if self._waiting.qsize() >= _MOST_WAITING:
                self._waiting.get_nowait()
                wait = f"more than {_MOST_WAITING:,} runs of hooks wait"
                self._reporter.say(_WAITING, f"{wait}; the oldest are dropped")
            self._waiting.put_nowait((hook, hook_event))

    async def _work(self) -> None:
        while True:
            hook, hook_event = await self._waiting.get()
            try:
                answer, _record = await self.run_one(hook, hook_event)
                self._say_late([answer], hook_event.event)
            except Exception:
                about = {"hook": hook.id, "event": hook_event.event}
                log.exception("a hook could not be run", extra=about)
            if self._waiting.empty():
                self._reporter.say(_WAITING, None)

    def _check_approvals(self) -> None:
        """Say at once which hooks will not run; this pins what is seen for the first time."""
        for hook in self._set.hooks:
            self._reporter.say(subject_of(hook.id), self._refusal(hook))

    def _refusal(self, hook: Hook) -> str | None:
        is_checked = self._options.must_approve and hook.files
        return self._approvals.refusal_of(hook.files) if is_checked else None
