"""Permission requests of agents at work. An unanswered request is denied.

A request is published as an event and answered by its id: allowed once or for the session, denied
this time or for ever. The number of requests is limited, and what was answered with never is not
asked again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.events import Bus
from parachuted.keys import PathGlob
from parachuted.state import Table
from parachuted.times import time_of
from parachuted.vault import printable

WishKind: TypeAlias = Literal["read", "write", "bash", "network", "trusted"]
Answer: TypeAlias = Literal["once", "session", "deny", "never"]

PERMISSION = "p-"
"""How the id of each request begins."""

_LONGEST_WHAT = 1_000
_LONGEST_WHY = 500
_MOST_OPEN_OF_A_RUN = 3
_MOST_OF_A_RUN = 20
_MOST_OPEN = 50
_MOST_RUNS = 1_000
_MOST_DENIED = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequest:
    """What an agent asks for: to read or write `what` (a path), run it (a command), reach it
    (`host:port`), or work as `trusted` at all.

    `why` is the agent's text and untrusted.
    """

    kind: WishKind
    what: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPermission:
    """A permission request that waits for a person; it is denied at `until`."""

    id: str
    at: datetime
    until: datetime
    run: str
    session: str | None
    agent: str
    request: PermissionRequest

    @property
    def patterns(self) -> tuple[str, ...]:
        """What a person could allow for the session in its place: this file, or its folder."""
        if self.request.kind not in {"read", "write"}:
            return ()
        folder, slash, _name = self.request.what.rpartition("/")
        return (self.request.what, *([f"{folder}/**"] if slash else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class _AllowedPattern:
    agent: str
    kind: WishKind
    glob: PathGlob

    @classmethod
    def of(cls, question: PendingPermission, pattern: str) -> _AllowedPattern:
        """Raises ActRefusedError."""
        request = question.request
        try:
            glob = PathGlob(pattern)
        except ValueError as error:
            raise ActRefusedError(f"{pattern[:80]!r} is not a pattern: {error}") from error
        if request.kind not in {"read", "write"} or not (
            glob.matches(request.what) or pattern == request.what
        ):
            raise ActRefusedError(f"{pattern[:80]!r} does not match what the agent asks for")
        return cls(agent=question.agent, kind=request.kind, glob=glob)

    def covers(self, agent: str, request: PermissionRequest) -> bool:
        return (agent, request.kind) == (self.agent, self.kind) and self.glob.matches(request.what)


@dataclass(slots=True, kw_only=True)
class _OpenRequest:
    question: PendingPermission
    answer: asyncio.Future[bool]
    waiting: int = 0


class PermissionRequests:
    """Asks, waits and remembers.

    All on the event loop. `never` keeps, beyond the daemon's life, what is not to be asked again.
    """

    def __init__(
        self,
        bus: Bus,
        clock: Callable[[], datetime],
        wait_s: float = 60,
        *,
        never: Table | None = None,
    ) -> None:
        """`wait_s`: how long a question waits for its answer, in seconds."""
        self._bus, self._clock, self._wait_s, self._never = bus, clock, wait_s, never
        self._open: dict[str, _OpenRequest] = {}
        self._denied: dict[str, None] = (
            {} if never is None else dict.fromkeys(key for key, _row in never.items())
        )
        self._allowed: dict[str, set[str]] = {}
        self._patterns: dict[str, list[_AllowedPattern]] = {}
        self._asked: OrderedDict[str, int] = OrderedDict()

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
        """Whether a person allows it, within `wait_s` seconds if that is given. `opened` hears of
        the request when it begins to wait.

        False when the request times out, when an earlier one of this run timed out, and when the
        run has asked too often.
        """
        key, scope = _key(agent, request), session or run
        if len(request.what) > _LONGEST_WHAT or key in self._denied:
            return False
        if key in self._allowed.get(scope, ()) or any(
            one.covers(agent, request) for one in self._patterns.get(scope, ())
        ):
            return True
        wait_s = self._wait_s if wait_s is None else wait_s
        waiting = self._same(key, scope)
        if waiting is None:
            waiting = self._begun(run, session, agent, request, wait_s)
            if waiting is not None:
                opened(waiting.question)
        return waiting is not None and await self._answer_to(waiting, wait_s)

    def pending(self) -> list[PendingPermission]:
        return [one.question for one in self._open.values()]

    def never(self) -> list[str]:
        return sorted(" ".join(key.split("\0")) for key in self._denied)

    def answer(
        self, question_id: str, answer: Answer, *, pattern: str | None = None
    ) -> PendingPermission:
        """Answer a request. With `session`, a `pattern` of paths allows all that it matches.

        Raises NotFoundError when it does not wait, or no longer waits, and ActRefusedError for a
        pattern that does not match what was asked; it waits on then.
        """
        one = self._open.get(question_id)
        if one is None:
            raise self.unknown(question_id)
        question = one.question
        if pattern is not None and answer == "session":
            allowed = _AllowedPattern.of(question, pattern)
            self._patterns.setdefault(question.session or question.run, []).append(allowed)
        del self._open[question_id]
        key = _key(question.agent, question.request)
        if answer == "never":
            self._deny(key)
        elif answer == "session":
            self._allowed.setdefault(question.session or question.run, set()).add(key)
        if not one.answer.done():
            one.answer.set_result(answer in {"once", "session"})
        self._tell(question, answer)
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

    def end_session(self, session: str) -> None:
        """What was allowed for that session, or for a run that had none, is allowed no longer; what
        it still asks is denied.
        """
        self._allowed.pop(session, None)
        self._patterns.pop(session, None)
        for one in [
            one
            for one in self._open.values()
            if session in {one.question.session, one.question.run}
        ]:
            self._close(one, "ended")

    def end_run(self, run: str, session: str | None = None) -> None:
        """A run is over: what it still asks is denied, and what it was allowed outside of any
        session is so no longer, unless its session started with it and goes on.
        """
        self._asked.pop(run, None)
        if session is not None:
            self._allowed.setdefault(session, set()).update(self._allowed.pop(run, ()))
            self._patterns.setdefault(session, []).extend(self._patterns.pop(run, ()))
        self.end_session(run)

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

    def _same(self, key: str, scope: str) -> _OpenRequest | None:
        """The same question of the same run or session, which waits already."""
        for one in self._open.values():
            if scope == (one.question.session or one.question.run) and key == _key(
                one.question.agent, one.question.request
            ):
                return one
        return None

    def _begun(
        self,
        run: str,
        session: str | None,
        agent: str,
        request: PermissionRequest,
        wait_s: float,
    ) -> _OpenRequest | None:
        """Publish a new request; None when there are too many."""
        asked = self._asked.get(run, 0)
        of_run = sum(one.question.run == run for one in self._open.values())
        if (
            asked >= _MOST_OF_A_RUN
            or of_run >= _MOST_OPEN_OF_A_RUN
            or len(self._open) >= _MOST_OPEN
        ):
            return None
        self._asked[run] = asked + 1
        while len(self._asked) > _MOST_RUNS:
            self._asked.popitem(last=False)
        now = self._clock()
        question = PendingPermission(
            id=f"{PERMISSION}{secrets.token_hex(4)}",
            at=now,
            until=now + timedelta(seconds=wait_s),
            run=run,
            session=session,
            agent=agent,
            request=PermissionRequest(
                kind=request.kind, what=request.what, why=request.why[:_LONGEST_WHY]
            ),
        )
        one = self._open[question.id] = _OpenRequest(
            question=question, answer=asyncio.get_running_loop().create_future()
        )
        self._bus.publish(
            "permission.requested",
            id=question.id,
            run=run,
            session=session,
            agent=agent,
            kind=request.kind,
            what=printable(request.what),
            why=printable(question.request.why),
            until=time_of(question.until),
        )
        return one

    async def _answer_to(self, one: _OpenRequest, wait_s: float) -> bool:
        one.waiting += 1
        try:
            async with asyncio.timeout(wait_s):
                return await asyncio.shield(one.answer)
        except TimeoutError:
            self._asked[one.question.run] = (
                _MOST_OF_A_RUN  # no person is there, and the run's time is for its work
            )
            self._close(one, "unanswered")
            return False
        finally:
            one.waiting -= 1
            if not one.waiting:  # the run that asked was ended
                self._close(one, "ended")

    def _close(self, one: _OpenRequest, answer: str) -> None:
        if self._open.pop(one.question.id, None) is None:
            return
        if not one.answer.done():
            one.answer.set_result(False)
        self._tell(one.question, answer)

    def _tell(self, question: PendingPermission, answer: str) -> None:
        request = question.request
        self._bus.publish(
            "permission.answered",
            id=question.id,
            run=question.run,
            session=question.session,
            agent=question.agent,
            kind=request.kind,
            what=printable(request.what),
            answer=answer,
        )


def _key(agent: str, request: PermissionRequest) -> str:
    return f"{agent}\0{request.kind}\0{request.what}"
