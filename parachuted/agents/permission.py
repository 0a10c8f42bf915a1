"""Permission requests of agents at work. An unanswered request is denied."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from parachuted.access.run_guard import WishKind
from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.events import Bus
from parachuted.keys import PathGlob
from parachuted.state import Table
from parachuted.texts.times import time_of
from parachuted.vault import PathText, printable

Answer: TypeAlias = Literal["once", "session", "deny", "never"]

PERMISSION = "p-"
"""How the id of each request begins."""

_LONGEST_WHAT = 1_000
_LONGEST_WHY = 500
_MOST_OPEN_OF_A_RUN = 3
_MOST_OF_A_RUN = 20
_MOST_OPEN = 50
_MOST_DENIED = 1_000


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

    @property
    def key(self) -> str:
        return f"{self.agent}\0{self.kind}\0{self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Allowed:
    question: PendingPermission
    glob: PathGlob | None = None

    def covers(self, asked: PendingPermission) -> bool:
        if self.glob is None:
            return asked.key == self.question.key
        of_both = (asked.agent, asked.kind) == (self.question.agent, self.question.kind)
        return of_both and self.glob.matches(asked.what)


@dataclass(slots=True, kw_only=True)
class _OpenRequest:
    question: PendingPermission
    answer: asyncio.Future[bool]
    waiting: int = 0


class PermissionRequests:
    """All on the event loop. `never` keeps what is not to be asked again."""

    def __init__(
        self,
        bus: Bus,
        clock: Callable[[], datetime],
        wait_s: float = 60,
        *,
        never: Table | None = None,
    ) -> None:
        self._bus, self._clock, self._wait_s, self._never = bus, clock, wait_s, never
        self._open: dict[str, _OpenRequest] = {}
        self._denied: dict[str, None] = (
            {} if never is None else dict.fromkeys(key for key, _row in never.items())
        )
        self._allowed: dict[str, list[_Allowed]] = {}
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
        if len(question.what) > _LONGEST_WHAT or question.key in self._denied:
            return False
        if any(allowed.covers(question) for allowed in self._allowed.get(question.scope, ())):
            return True
        asked = (question.scope, question.key)
        waiting = next(
            (one for one in self._open.values() if asked == (one.question.scope, one.question.key)),
            None,
        )
        if waiting is None:
            if not self._may_ask(run):
                return False
            waiting = self._begin(question)
            opened(question)
        return await self._answer_to(waiting, wait_s)

    def pending(self) -> list[PendingPermission]:
        return [one.question for one in self._open.values()]

    def never(self) -> list[str]:
        return sorted(" ".join(key.split("\0")) for key in self._denied)

    def answer(
        self, question_id: str, answer: Answer, *, pattern: str | None = None
    ) -> PendingPermission:
        """With `session`, a `pattern` of paths allows all that it matches. Raises NotFoundError,
        and ActRefusedError for a pattern that does not match what was asked; it waits on then.
        """
        one = self._open.get(question_id)
        if one is None:
            raise self.unknown(question_id)
        question = one.question
        if answer == "session":
            allowed = self._allowed.setdefault(question.scope, [])
            if pattern is not None:
                allowed.append(_Allowed(question=question, glob=_glob_for(question, pattern)))
            allowed.append(_Allowed(question=question))
        elif answer == "never":
            self._deny(question.key)
        self._close(one, answer, is_allowed=answer in {"once", "session"})
        return question

    @staticmethod
    def unknown(question_id: str) -> NotFoundError:
        """The error for a request that does not wait, or not for this caller."""
        return NotFoundError(
            f"no question {question_id[:80]!r} waits for an answer; `parachute permissions list` "
            "shows those that do"
        )

    def forget(self, agent: str) -> int:
        """Let that agent ask again what was answered with never; how much that was."""
        gone = [key for key in self._denied if key.partition("\0")[0] == agent]
        for key in gone:
            self._let_ask(key)
        return len(gone)

    def end_run(self, run: str, session: str | None = None) -> None:
        """What it was allowed outside of any session ends, unless its session goes on."""
        self._asked.pop(run, None)
        allowed = self._allowed.pop(run, [])
        if session is not None:
            self._allowed.setdefault(session, []).extend(allowed)
        for one in [*self._open.values()]:
            if one.question.run == run:
                self._close(one, "ended")

    def _deny(self, key: str) -> None:
        """Remember the denial; the oldest is forgotten when there are too many."""
        self._denied[key] = None
        if self._never is not None:
            self._never.put(key, {"at": self._clock().isoformat()})
        while len(self._denied) > _MOST_DENIED:
            self._let_ask(next(iter(self._denied)))

    def _let_ask(self, key: str) -> None:
        del self._denied[key]
        if self._never is not None:
            self._never.drop(key)

    def _may_ask(self, run: str) -> bool:
        of_run = sum(one.question.run == run for one in self._open.values())
        return (
            self._asked.get(run, 0) < _MOST_OF_A_RUN
            and of_run < _MOST_OPEN_OF_A_RUN
            and len(self._open) < _MOST_OPEN
        )

    def _begin(self, question: PendingPermission) -> _OpenRequest:
        self._asked[question.run] = self._asked.get(question.run, 0) + 1
        one = _OpenRequest(question=question, answer=asyncio.get_running_loop().create_future())
        self._open[question.id] = one
        why, until = printable(question.why), time_of(question.until)
        self._publish("permission.requested", question, why=why, until=until)
        return one

    async def _answer_to(self, one: _OpenRequest, wait_s: float) -> bool:
        one.waiting += 1
        try:
            async with asyncio.timeout(wait_s):
                return await asyncio.shield(one.answer)
        except TimeoutError:  # no person is there, and the run's time is for its work
            self._asked[one.question.run] = _MOST_OF_A_RUN
            self._close(one, "unanswered")
            return False
        finally:
            one.waiting -= 1
            if not one.waiting:  # the run that asked was ended
                self._close(one, "ended")

    def _close(self, one: _OpenRequest, answer: str, *, is_allowed: bool = False) -> None:
        if self._open.pop(one.question.id, None) is None:
            return
        if not one.answer.done():
            one.answer.set_result(is_allowed)
        self._publish("permission.answered", one.question, answer=answer)

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
