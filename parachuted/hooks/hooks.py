"""Asks hooks before an action, informs them of events, and records the outcome.

Nothing here waits longer than a hook's own limit. Events are delivered in the background, in order,
while the queue has room.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.hooks.approvals import HookApprovals, ScriptReview
from parachuted.hooks.decision import (
    ALLOWED,
    HookAnswer,
    HookDecision,
    StopObjections,
    combine,
    is_handed_on,
    outcome_of,
    read_answer,
)
from parachuted.hooks.hook import NEVER_CLOSED, Hook, HookError, HookStatus, is_blocking
from parachuted.hooks.hook_event import HookEvent, document, encode
from parachuted.hooks.loading import HookSet, load_hooks, look
from parachuted.hooks.matching import compile_hook
from parachuted.hooks.participant import HookParticipant
from parachuted.hooks.reporting import HookReporter, subject_of
from parachuted.hooks.run_recorder import HookRunRecord, HookRunRecorder
from parachuted.hooks.runner import HookRunner, not_started

log = logging.getLogger(__name__)

_T = TypeVar("_T")

_PASSED_ON = ("PATH", "HOME", "LANG")
_PATH = "/usr/local/bin:/usr/bin:/bin"
_MOST_WAITING = 1_000
_WORKERS = 8  # the runner begins fewer at a time; one that waits for it is cheap
_FILES = "hooks:files"
_WAITING = "hooks:waiting"
_STOPPING = HookDecision(
    allowed=False, reason="the daemon is stopping, so the hooks that may object could not be asked"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueuedEvent:
    hook_event: HookEvent
    hooks: tuple[Hook, ...]


class Hooks:
    """The hooks of one home, for one vault. All on the loop's thread but for `ask_from_thread`.

    `wanted`: the events that a hook is for, or that are refused while its hooks cannot be read.

    `report` takes a subject and what is wrong with it, or None; `on_error` each failure of a hook.
    """

    def __init__(  # noqa: PLR0913  what the daemon gives it, by name
        self,
        *,
        home: Path,
        vault: Path,
        runner: HookRunner,
        approvals: HookApprovals,
        recorder: HookRunRecorder,
        clock: Callable[[], datetime],
        report: Callable[[str, str | None], None],
        env: Mapping[str, str],
        fails_closed: bool = False,
        must_approve: bool = True,
        on_error: Callable[[HookError], None] | None = None,
    ) -> None:
        self._home, self._vault, self._runner = home, vault, runner
        self._approvals, self._recorder = approvals, recorder
        self._clock = clock
        self._env = {name: env[name] for name in _PASSED_ON if name in env}
        self._env.setdefault("PATH", _PATH)
        self._fails_closed, self._must_approve = fails_closed, must_approve
        self._set = HookSet()
        self._mark: tuple[object, ...] | None = None
        self._by_event: dict[str, tuple[Hook, ...]] = {}
        self._matches: dict[str, Callable[[HookEvent], bool]] = {}
        self._participants: tuple[HookParticipant, ...] = ()
        self.wanted: frozenset[str] = frozenset()
        self._waiting: asyncio.Queue[_QueuedEvent] = asyncio.Queue()
        self._reporter = HookReporter(clock, report, on_error)
        self._stops = StopObjections()
        self._from_threads: set[asyncio.Task[HookDecision]] = set()
        self._is_closed = False
        self.look()

    @property
    def listed(self) -> tuple[HookStatus, ...]:
        """All hooks and their state, in the order of declaration.

        Reads the pinned files.
        """
        return tuple(
            self._reporter.status_of(hook, self._refusal(hook)) for hook in self._set.hooks
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the files in which hooks are declared."""
        return self._set.problems

    @property
    def errors(self) -> tuple[HookError, ...]:
        return tuple(self._reporter.errors)

    @property
    def recorder(self) -> HookRunRecorder:
        return self._recorder

    def look(self) -> None:
        """Read the hooks again if their files have changed; a few system calls when they have
        not.
        """
        mark = look(self._home)
        if mark == self._mark:
            return
        self._mark = mark
        places = {"HOME": self._env["HOME"]} if "HOME" in self._env else {}
        self._set = load_hooks(self._home, vault=self._vault, places=places)
        self._arrange()
        self._reporter.say(_FILES, "; ".join(self._set.problems) or None)
        self._reporter.forget_all_but(
            {_FILES, _WAITING}
            | {subject_of(hook.id) for hook in self._set.hooks}
            | {subject_of(one.id) for one in self._participants}
        )
        self._check_approvals()

    def set_participants(self, participants: Iterable[HookParticipant]) -> None:
        """From now on, ask these too, after the person's own hooks and where those allow it."""
        before, self._participants = self._participants, tuple(participants)
        ids = {one.id for one in self._participants}
        for gone in before:
            if gone.id not in ids:
                self._reporter.say(subject_of(gone.id), None)
        self._find_wanted()

    def wants(self, event: str) -> bool:
        return event in self.wanted

    async def ask(self, hook_event: HookEvent) -> HookDecision:
        """Run all matching hooks, and combine their answers.

        Hooks of one `order` run at once, and see what earlier ones changed.
        """
        if hook_event.event not in self.wanted:
            return ALLOWED
        if refusal := self._unreadable(hook_event.event):
            return refusal
        hook_event = self._stops.mark(hook_event)
        chosen = self._choose(hook_event)
        self._put(hook_event, [hook for hook in chosen if hook.is_async])
        waited = [hook for hook in chosen if not hook.is_async]
        decision = await self._decide(hook_event, waited, modules=self._participants)
        return self._stops.count(hook_event, decision)

    def tell(self, hook_event: HookEvent) -> None:
        """Run the matching hooks in the background; nothing waits for asynchronous ones, not even
        hooks of a later `order`.
        """
        if hook_event.event not in self.wanted:
            return
        chosen = self._choose(hook_event)
        self._put(hook_event, [hook for hook in chosen if not hook.is_async])
        self._put(hook_event, [hook for hook in chosen if hook.is_async])

    def ask_from_thread(
        self, hook_event: HookEvent, loop: asyncio.AbstractEventLoop
    ) -> HookDecision:
        """The same as `ask`, from a thread that is not the loop's; the loop is to run meanwhile.

        RuntimeError on the loop's own thread.
        """
        if not self.wants(hook_event.event):
            return ALLOWED
        if _is_on_loop():
            raise RuntimeError(
                "ask_from_thread waits for the loop, so it cannot be called on the loop's own "
                "thread"
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
        """Tell the facts that wait, until this is cancelled; what runs then is ended."""
        async with asyncio.TaskGroup() as group:
            for number in range(_WORKERS):
                group.create_task(self._work(), name=f"hooks-{number}")

    async def close(self) -> None:
        """Refuse all who wait in threads, and drop queued events."""
        self._is_closed = True
        while not self._waiting.empty():
            self._waiting.get_nowait()
        tasks = tuple(self._from_threads)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_one(
        self, hook_id: str, hook_event: HookEvent
    ) -> tuple[HookAnswer, HookRunRecord]:
        """Run one hook, ignoring its matcher. Raises NotFoundError."""
        return await self._run(self._get(hook_id), hook_event)

    async def replay(self, record_id: str) -> HookRunRecord:
        """Run a hook again on its recorded input.

        Raises NotFoundError when the run or the hook does not exist.
        """
        old = self._recorder.get(record_id)
        if old is None:
            raise NotFoundError(
                f"there is no run {record_id[:80]!r}; `parachute hooks history` shows the last ones"
            )
        if old.is_stdin_cut:
            raise ParachuteError(
                f"run {record_id[:80]} cannot be replayed: what the hook was given was too long "
                "to be kept whole"
            )
        hook = self._get(old.hook)
        if hook.event != old.event:
            raise NotFoundError(f"{old.hook} is for {hook.event} now, not for {old.event}")
        hook_event = HookEvent(event=hook.event, at=self._clock(), data={}, vault=self._vault)
        _, record = await self._run(hook, hook_event, old.stdin.encode("utf-8", "backslashreplace"))
        return record

    def review(self, name: str) -> list[ScriptReview]:
        """The scripts of the hook with that id, and what was approved. Raises NotFoundError."""
        return self._approvals.review(self._get(name).files)

    def approve(
        self,
        names: Iterable[str] | None = None,
        shown: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Pin hooks as they are now: those with these ids, or all.

        Returns the newly pinned files. Raises NotFoundError, and ScriptChangedError where their
        scripts are not all, and just as, `shown` says: digests by path. None: whatever they are.
        """
        hooks = self._set.hooks if names is None else tuple(self._get(name) for name in names)
        found = self._approvals.approve(
            [file for hook in hooks for file in hook.files], shown=shown
        )
        self._check_approvals()
        return found

    def _arrange(self) -> None:
        found: dict[str, list[Hook]] = {}
        self._matches = {}
        for hook in self._set.hooks:
            try:
                self._matches[hook.id] = compile_hook(hook)
            except ValueError:
                continue  # it never matches; the problems say so
            found.setdefault(hook.event, []).append(hook)
        self._by_event = {
            event: tuple(sorted(hooks, key=lambda hook: hook.order))
            for event, hooks in found.items()
        }
        self._find_wanted()

    def _find_wanted(self) -> None:
        modules = {one.event for one in self._participants}
        self.wanted = frozenset(self._by_event) | frozenset(self._set.closed) | modules

    def _get(self, hook_id: str) -> Hook:
        for hook in self._set.hooks:
            if hook.id == hook_id:
                return hook
        raise NotFoundError(f"there is no hook {hook_id[:80]!r}; `parachute hooks list` shows them")

    def _choose(self, hook_event: HookEvent) -> list[Hook]:
        """The hooks that are meant, in their order.

        Of those that run the same, one runs: the one that may object most.
        """
        chosen: dict[object, Hook] = {}
        for hook in self._by_event.get(hook_event.event, ()):
            if not self._matches[hook.id](hook_event):
                continue
            same = chosen.setdefault((hook.command, hook.argv), hook)
            if (not hook.is_async, bool(hook.blocks_on_failure)) > (
                not same.is_async,
                bool(same.blocks_on_failure),
            ):
                chosen[hook.command, hook.argv] = hook
        return sorted(chosen.values(), key=lambda hook: hook.order)

    def _unreadable(self, event: str) -> HookDecision | None:
        """The refusal for a blocking hook that cannot be started as declared."""
        if self._is_closed and is_blocking(event):
            return _STOPPING
        if (why := self._set.closed.get(event)) is None:
            return None
        return HookDecision(allowed=False, reason=f"a hook that guards this cannot be asked: {why}")

    async def _decide(
        self,
        hook_event: HookEvent,
        hooks: Sequence[Hook],
        *,
        modules: Sequence[HookParticipant] = (),
        is_background: bool = False,
    ) -> HookDecision:
        answers: list[HookAnswer] = []
        decision = ALLOWED
        for _, stage in groupby(hooks, key=lambda hook: hook.order):
            running = [self._run(hook, hook_event, is_background=is_background) for hook in stage]
            answers += [answer for answer, _ in await _all(running)]
            decision = combine(hook_event.event, answers)
            if not decision.allowed or decision.stop:
                break
            if decision.updated_input is not None:
                hook_event = replace(
                    hook_event, data={**hook_event.data, "tool_input": decision.updated_input}
                )
        asked = [one for one in modules if one.event == hook_event.event and one.wants(hook_event)]
        if asked and decision.allowed and not decision.stop:
            answers += await _all([self._ask_participant(one, hook_event) for one in asked])
            decision = combine(hook_event.event, answers)
        if is_background or not (is_blocking(hook_event.event) or is_handed_on(hook_event.event)):
            self._reporter.note_late(hook_event.event, answers)
        return decision

    async def _run(
        self,
        hook: Hook,
        hook_event: HookEvent,
        stdin: bytes | None = None,
        *,
        is_background: bool = False,
    ) -> tuple[HookAnswer, HookRunRecord]:
        """Run it on the occurrence's document, or on `stdin`."""
        stdin = encode(document(hook_event)) if stdin is None else stdin
        refusal = self._refusal(hook)
        if refusal is not None:
            ran = not_started(refusal)
        else:
            ran = await self._runner.run(
                argv=hook.argv,
                command=hook.command,
                stdin=stdin,
                env=self._environment(hook_event.event),
                cwd=hook_event.folder,
                timeout_s=hook.timeout_s,
                is_background=is_background,
                refusal=lambda: self._refusal(
                    hook
                ),  # again: its turn may have come long after it was asked for
            )
        answer = replace(
            read_answer(hook, ran, fails_closed=self._fails_closed), ended=time.monotonic()
        )
        self._reporter.note_run(hook.id, hook_event.event, ran.took_ms, answer.failure)
        record = self._recorder.keep(
            hook=hook.id,
            event=hook.event,
            at=self._clock(),
            stdin=stdin,
            ran=ran,
            decision=outcome_of(hook, answer),
        )
        return answer, record

    async def _ask_participant(self, one: HookParticipant, hook_event: HookEvent) -> HookAnswer:
        began = time.perf_counter()
        answer = await one.answer(hook_event)
        if one not in self._participants:  # its module ended meanwhile
            return HookAnswer(hook=one.id)
        took_ms = (time.perf_counter() - began) * 1000
        self._reporter.note_run(one.id, hook_event.event, took_ms, answer.failure)
        if answer.failure is not None and self._fails_closed and one.event != NEVER_CLOSED:
            answer = replace(answer, blocks=answer.failure)
        return answer

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
        self._waiting.put_nowait(_QueuedEvent(hook_event=hook_event, hooks=tuple(hooks)))

    async def _work(self) -> None:
        while True:
            shaped = await self._waiting.get()
            try:
                await self._decide(shaped.hook_event, shaped.hooks, is_background=True)
            except Exception:
                log.exception(
                    "the hooks of an event could not be run",
                    extra={"event": shaped.hook_event.event},
                )
            if self._waiting.empty():
                self._reporter.say(_WAITING, None)

    def _check_approvals(self) -> None:
        """Say at once which hooks are not going to run; what is seen for the first time is pinned
        by this.
        """
        for hook in self._set.hooks:
            self._reporter.say(subject_of(hook.id), self._refusal(hook))

    def _refusal(self, hook: Hook) -> str | None:
        """Why it may not run as it is now, or None."""
        return self._approvals.refusal_of(hook.files) if self._must_approve and hook.files else None


async def _all(running: Sequence[Coroutine[None, None, _T]]) -> list[_T]:
    """Run all at once; a single one needs no task of its own."""
    if len(running) == 1:
        return [await running[0]]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in running]
    return [task.result() for task in tasks]


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
