"""Sessions of conversation as hooks and other listeners hear of them: how one starts, that its
context is nearly full, that its agent waits for the person, and that it has ended.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from parachuted.agents import PermissionStep, QuestionStep
from parachuted.events import Bus

_MOST_SESSIONS = 2_000
_IDLE_S = 1_800.0


@dataclass(slots=True, kw_only=True)
class _Session:
    began: datetime
    run: str
    messages: int = 0
    timer: asyncio.TimerHandle | None = None

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class SessionEvents:
    """The sessions that go on, and their events. All on the event loop.

    A session ends when it is closed, or when so many seconds have passed since its last turn. One
    that goes on when the daemon ends is resumed later.
    """

    def __init__(self, bus: Bus, clock: Callable[[], datetime], idle_s: float = _IDLE_S) -> None:
        self._bus, self._clock, self._idle_s = bus, clock, idle_s
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def start_of(self, session: str | None) -> str | None:
        """How a session starts with this turn: `startup`, or `resume` where it has ended or is the
        first since the daemon started; None: it goes on.
        """
        if session is None:
            return "startup"
        known = self._sessions.get(session)
        if known is None:
            return "resume"
        known.stop_timer()
        return None

    def ended_turn(self, session: str, run: str, began: datetime) -> None:
        """That run was a turn of the session: a prompt and its answer."""
        known = self._sessions.setdefault(session, _Session(began=began, run=run))
        self._sessions.move_to_end(session)
        known.run, known.messages = run, known.messages + 2
        known.stop_timer()
        known.timer = asyncio.get_running_loop().call_later(self._idle_s, self._end, session)
        while len(self._sessions) > _MOST_SESSIONS:
            self._end(next(iter(self._sessions)))

    def close(self, run: str) -> None:
        """The session whose last turn was that run is closed."""
        for session in [name for name, known in self._sessions.items() if known.run == run]:
            self._end(session)

    def approach(self, session: str, tokens: int, window: int) -> None:
        """Publish that the session's context is nearly full."""
        self._bus.publish(
            "context.limit.approaching", session_id=session, token_count=tokens, threshold=window
        )

    def notify(self, session: str, agent: str, step: QuestionStep | PermissionStep) -> None:
        """Publish that the agent waits for the person."""
        is_question = isinstance(step, QuestionStep)
        self._bus.publish(
            "session.notification",
            session_id=session,
            notification_type="agent_needs_input" if is_question else "permission_prompt",
            title="A question" if is_question else "A permission",
            message=_words(step, agent),
        )

    def _end(self, session: str) -> None:
        ended = self._sessions.pop(session)
        ended.stop_timer()
        self._bus.publish(
            "session.end",
            session_id=session,
            message_count=ended.messages,
            duration=round((self._clock() - ended.began).total_seconds(), 3),
        )


def _words(step: QuestionStep | PermissionStep, agent: str) -> str:
    if isinstance(step, PermissionStep):
        return f"{agent} needs your permission to use {step.tool}"
    return "\n".join(str(asked.get("question") or "") for asked in step.questions)
