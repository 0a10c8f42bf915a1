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
from parachuted.hooks.hook import BLOCKING, Hook, HookOptions
from parachuted.hooks.hook_event import HookEvent, document, encode
from parachuted.hooks.loading import load_hooks, look
from parachuted.hooks.matching import compile_hook
from parachuted.hooks.reporting import HookError, HookReporter, HookStatus, subject_of
from parachuted.hooks.run_recorder import HookRunRecord, HookRunRecorder
from parachuted.hooks.runner import HookRunner, not_started
from parachuted.hooks.settings import HookFile

log = logging.getLogger(__name__)

_PASSED_ON = ("PATH", "HOME", "LANG")
_PATH = "/usr/local/bin:/usr/bin:/bin"
_MOST_WAITING = 1_000
_WORKERS = 8  # the runner begins fewer at a time; one that waits for it is cheap
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
        self._runner, self._approvals = HookRunner(options.concurrency), HookApprovals(home)
        self.recorder = HookRunRecorder(runs)
        self._env = {"PATH": _PATH, **{name: env[name] for name in _PASSED_ON if name in env}}
        self._set = HookFile()
        self._mark: tuple[object, ...] | None = None
        self._by_event: dict[str, list[Hook]] = {}
        self._matches: dict[str, Callable[[HookEvent], bool]] = {}
        self.wanted: frozenset[str] = frozenset()
        self._waiting: asyncio.Queue[tuple[HookEvent, Sequence[Hook]]] = asyncio.Queue()
        self._reporter = HookReporter(clock, report, on_error)
        self._from_threads: set[asyncio.Task[HookDecision]] = set()
        self._is_closed = False
        self.look()

    @property
    def listed(self) -> tuple[HookStatus, ...]:
        """All hooks and their state, in the order of declaration. Reads the pinned files."""
        return tuple(self._reporter.status_of(one, self._refusal(one)) for one in self.declared)

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
        self._matches, self._by_event = {}, {}
        for hook in self._set.hooks:
            try:
                self._matches[hook.id] = compile_hook(hook)
            except ValueError:
                continue  # it never matches; the problems say so
            self._by_event.setdefault(hook.event, []).append(hook)
        self.wanted = frozenset(self._by_event) | frozenset(self._set.closed)
        self._reporter.say(_FILES, "; ".join(self._set.problems) or None)
        ids = {subject_of(hook.id) for hook in self._set.hooks}
        self._reporter.forget_all_but({_FILES, _WAITING, *ids})
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
            return HookDecision(
                allowed=False, reason=f"a hook that guards this cannot be asked: {why}"
            )
        chosen = self._choose(hook_event)
        self._put(hook_event, [hook for hook in chosen if hook.is_async])
        answers = await self._run_all([hook for hook in chosen if not hook.is_async], hook_event)
        return combine(event, answers)

    def tell(self, hook_event: HookEvent) -> None:
        if hook_event.event in self.wanted:
            self._put(hook_event, self._choose(hook_event))

    def ask_from_thread(
        self, hook_event: HookEvent, loop: asyncio.AbstractEventLoop
    ) -> HookDecision:
        """The same as `ask` while the loop runs elsewhere. RuntimeError on the loop's thread."""
        if not self.wants(hook_event.event):
            return ALLOWED
        if _is_on_loop():
            raise RuntimeError(
                "ask_from_thread waits for the loop, so not on the loop's own thread"
            )
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
        async with asyncio.TaskGroup() as group:
            for number in range(_WORKERS):
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

    async def run_one(
        self, hook_id: str, hook_event: HookEvent
    ) -> tuple[HookAnswer, HookRunRecord]:
        return await self._run(self._get(hook_id), hook_event)

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
        _, record = await self._run(hook, hook_event, old.stdin.encode("utf-8", "backslashreplace"))
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
        found = self._approvals.approve(
            [file for hook in hooks for file in hook.files], shown=shown
        )
        self._check_approvals()
        return found

    def _get(self, hook_id: str) -> Hook:
        for hook in self._set.hooks:
            if hook.id == hook_id:
                return hook
        raise NotFoundError(f"there is no hook {hook_id[:80]!r}; `parachute hooks list` shows them")

    def _choose(self, hook_event: HookEvent) -> list[Hook]:
        return [
            hook
            for hook in self._by_event.get(hook_event.event, ())
            if self._matches[hook.id](hook_event)
        ]

    async def _run_all(
        self, hooks: Sequence[Hook], hook_event: HookEvent, *, is_background: bool = False
    ) -> list[HookAnswer]:
        if len(hooks) == 1:  # needs no task of its own
            running = [await self._run(hooks[0], hook_event, is_background=is_background)]
        else:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._run(hook, hook_event, is_background=is_background))
                    for hook in hooks
                ]
            running = [task.result() for task in tasks]
        answers = [answer for answer, _ in running]
        if is_background or is_too_late(hook_event.event):
            for answer in answers:
                if answer.blocks is not None and answer.failure is None:
                    late = f"{answer.hook} objects to {hook_event.event}, which cannot be stopped "
                    self._reporter.fail(
                        answer.hook, hook_event.event, f"{late}any more: {answer.blocks}"
                    )
        return answers

    async def _run(
        self,
        hook: Hook,
        hook_event: HookEvent,
        stdin: bytes | None = None,
        *,
        is_background: bool = False,
    ) -> tuple[HookAnswer, HookRunRecord]:
        stdin = encode(document(hook_event)) if stdin is None else stdin
        refusal = self._refusal(hook)
        ran = (
            not_started(refusal)
            if refusal is not None
            else await self._runner.run(
                hook.words,
                stdin=stdin,
                env=self._environment(hook_event.event),
                cwd=hook_event.folder,
                timeout_s=hook.timeout_s,
                is_background=is_background,
                refusal=lambda: self._refusal(hook),  # again: its turn may come much later
            )
        )
        answer = read_answer(hook, ran, fails_closed=self._options.fails_closed)
        self._reporter.note_run(hook.id, hook_event.event, ran.took_ms, answer.failure)
        if answer.message is not None:
            log.info("a hook says", extra={"hook": hook.id, "words": answer.message})
        record = self.recorder.add(
            hook=hook.id,
            event=hook.event,
            at=self._clock(),
            stdin=stdin,
            ran=ran,
            decision=outcome_of(hook, answer),
        )
        return answer, record

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

    def _put(self, hook_event: HookEvent, hooks: Sequence[Hook]) -> None:
        if self._is_closed or not hooks:
            return
        if self._waiting.qsize() >= _MOST_WAITING:
            self._waiting.get_nowait()
            self._reporter.say(
                _WAITING,
                f"more than {_MOST_WAITING:,} events wait for their hooks; the oldest are dropped",
            )
        self._waiting.put_nowait((hook_event, hooks))

    async def _work(self) -> None:
        while True:
            hook_event, hooks = await self._waiting.get()
            try:
                await self._run_all(hooks, hook_event, is_background=True)
            except Exception:
                log.exception(
                    "the hooks of an event could not be run", extra={"event": hook_event.event}
                )
            if self._waiting.empty():
                self._reporter.say(_WAITING, None)

    def _check_approvals(self) -> None:
        """Say at once which hooks will not run; this pins what is seen for the first time."""
        for hook in self._set.hooks:
            self._reporter.say(subject_of(hook.id), self._refusal(hook))

    def _refusal(self, hook: Hook) -> str | None:
        is_checked = self._options.must_approve and hook.files
        return self._approvals.refusal_of(hook.files) if is_checked else None


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
