"""Permission requests of agents at work. An unanswered request is denied."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from parachuted.access.strangers import WishKind
from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.events import Bus
from parachuted.keys import PathGlob
from parachuted.texts.times import time_of
from parachuted.vault import PathText, printable

Answer: TypeAlias = Literal["once", "session", "deny"]

PERMISSION = "p-"
"""How the id of each request begins."""

_LONGEST_WHAT = 1_000
_LONGEST_WHY = 500
_MOST_OPEN_OF_A_RUN = 3
_MOST_OF_A_RUN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequest:
    """What an agent asks for: to read or write `what` (a path), run it (a command), reach it
    (`host:port`), or work as `trusted` at all.

    `why` is the agent's text and untrusted.
    """

    kind: WishKind
    what: PathText
    why: PathText = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPermission(PermissionRequest):
    """A permission request that waits for a person; it is denied at `until`."""

    id: str
    at: datetime
    until: datetime
    run: str
    session: str | None
    agent: str

    @property
    def patterns(self) -> tuple[str, ...]:
        """What a person could allow for the session in its place: this file, or its folder."""
        if self.kind not in {"read", "write"}:
            return ()
        folder, slash, _name = self.what.rpartition("/")
        return (self.what, *([f"{folder}/**"] if slash else []))

    @property
    def scope(self) -> str:
        return self.session or self.run


@dataclass(frozen=True, slots=True)
class _Decision:
    """What holds for the rest of a session, or of a run without one."""

    question: PendingPermission
    is_allowed: bool
    glob: PathGlob | None

    def covers(self, asked: PendingPermission) -> bool:
        question = self.question
        if (asked.agent, asked.kind) != (question.agent, question.kind):
            return False
        is_matched = self.glob is not None and self.glob.matches(asked.what)
        return asked.what == question.what or is_matched


class PermissionRequests:
    """All on the event loop."""

    def __init__(self, bus: Bus, clock: Callable[[], datetime], wait_s: float = 60) -> None:
        self._bus, self._clock, self._wait_s = bus, clock, wait_s
        self._open: dict[str, tuple[PendingPermission, asyncio.Future[bool]]] = {}
        self._decided: dict[str, list[_Decision]] = {}
        self._asked: dict[str, int] = {}

    async def ask(
        self,
        *,
        run: str,
        session: str | None,
        agent: str,
        request: PermissionRequest,
        wait_s: float | None = None,
        opened: Callable[[PendingPermission], None] = lambda _question: None,
    ) -> bool:
        """Whether a person allows it within `wait_s` seconds; `opened` hears of the request.

        False when it times out, when an earlier one of this run did, and when the run has asked too
        often.
        """
        now, wait_s = self._clock(), self._wait_s if wait_s is None else wait_s
        question = PendingPermission(
            id=f"{PERMISSION}{secrets.token_hex(4)}",
            at=now,
            until=now + timedelta(seconds=wait_s),
            run=run,
            session=session,
            agent=agent,
            kind=request.kind,
            what=request.what,
            why=request.why[:_LONGEST_WHY],
        )
        for decision in self._decided.get(question.scope, ()):
            if decision.covers(question):
                return decision.is_allowed
        if len(question.what) > _LONGEST_WHAT or not self._may_ask(run):
            return False
        self._asked[run] = self._asked.get(run, 0) + 1
        answer = asyncio.get_running_loop().create_future()
        self._open[question.id] = (question, answer)
        why, until = printable(question.why), time_of(question.until)
        self._publish("permission.requested", question, why=why, until=until)
        opened(question)
        try:
            async with asyncio.timeout(wait_s):
                return await asyncio.shield(answer)
        except TimeoutError:  # no person is there, and the run's time is for its work
            self._asked[run] = _MOST_OF_A_RUN
            self._close(question.id, "unanswered")
            return False
        finally:
            self._close(question.id, "ended")  # where the run that asked was ended

    def pending(self) -> list[PendingPermission]:
        return [question for question, _answer in self._open.values()]

    def answer(
        self, question_id: str, answer: Answer, *, pattern: str | None = None
    ) -> PendingPermission:
        """`session` and `deny` hold as long as the session lasts. With `session`, a `pattern` of
        paths allows all that it matches. Raises NotFoundError, and ActRefusedError for a pattern
        that does not match what was asked; it waits on then.
        """
        if question_id not in self._open:
            raise self.unknown(question_id)
        question, _answer = self._open[question_id]
        glob = None if pattern is None else _glob_for(question, pattern)
        if answer != "once":
            decision = _Decision(question, answer == "session", glob if answer != "deny" else None)
            self._decided.setdefault(question.scope, []).append(decision)
        self._close(question_id, answer, is_allowed=answer != "deny")
        return question

    @staticmethod
    def unknown(question_id: str) -> NotFoundError:
        """The error for a request that does not wait, or not for this caller."""
        return NotFoundError(
            f"no question {question_id[:80]!r} waits for an answer; `parachute permissions list` "
            "shows those that do"
        )

    def end_run(self, run: str, session: str | None = None) -> None:
        """What was decided for it outside of any session ends, unless its session goes on."""
        self._asked.pop(run, None)
        decided = self._decided.pop(run, [])
        if session is not None:
            self._decided.setdefault(session, []).extend(decided)
        for question in self.pending():
            if question.run == run:
                self._close(question.id, "ended")

    def _may_ask(self, run: str) -> bool:
        of_run = sum(question.run == run for question in self.pending())
        return self._asked.get(run, 0) < _MOST_OF_A_RUN and of_run < _MOST_OPEN_OF_A_RUN

    def _close(self, question_id: str, said: str, *, is_allowed: bool = False) -> None:
        question, answer = self._open.pop(question_id, (None, None))
        if question is None or answer is None:
            return
        if not answer.done():
            answer.set_result(is_allowed)
        self._publish("permission.answered", question, answer=said)

    def _publish(self, event: str, question: PendingPermission, **more: str) -> None:
        self._bus.publish(
            event,
            id=question.id,
            run=question.run,
            session=question.session,
            agent=question.agent,
            kind=question.kind,
            what=printable(question.what),
            **more,
        )


def _glob_for(question: PendingPermission, pattern: str) -> PathGlob:
    try:
        glob = PathGlob(pattern)
    except ValueError as error:
        raise ActRefusedError(f"{pattern[:80]!r} is not a pattern: {error}") from error
    if not question.patterns or not (glob.matches(question.what) or pattern == question.what):
        raise ActRefusedError(f"{pattern[:80]!r} does not match what the agent asks for")
    return glob
