"""Session taint: who owns a session, and which untrusted texts its runs have read.

Who resumes a session has read all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import cast

from parachuted.access.origin import Origin, Taint
from parachuted.state import StateStore

_TABLE = "session_taint"
_MOST = 50
_USED = "used"
_FEW = 1_000
_KEPT = timedelta(days=90)  # the CLI clears away a session that nobody has gone on with for 30


class SessionTaints:
    """Stored in the state by the session's id, until long after it can be resumed.

    Without the state no session can be resumed.
    """

    def __init__(self, state: StateStore, clock: Callable[[], datetime]) -> None:
        self._state, self._table, self._clock = state, state.table(_TABLE), clock

    def recall(self, session: str, taint: Taint) -> None:
        """The run resumes that session."""
        row = self._table.take(session)
        for source, origin in (
            cast("dict[str, Origin]", row["sources"]).items() if row is not None else ()
        ):
            taint.read(source, origin)

    def owner(self, session: str) -> str | None:
        """The agent that the session belongs to; None: unknown.

        Another agent would learn from it what it may not read itself.
        """
        row = self._table.take(session)
        return str(row["agent"]) if row is not None else None

    def keep(self, session: str, taint: Taint, *, agent: str) -> None:
        """The run of that agent has ended, and its session can be resumed.

        Raises StorageFailedError.
        """
        today = self._clock().date()
        sources = dict(list(taint.sources.items())[:_MOST])
        row = {"agent": self.owner(session) or agent, "sources": sources, _USED: today.isoformat()}
        if self._table.take(session) == row:
            return
        with self._state.batch():
            self._table.put(session, row)
            self._drop_old(today)

    def _drop_old(self, today: date) -> None:
        """Drop those that were unused for longest, where there are many."""
        rows = self._table.items()
        for session, row in rows if len(rows) > _FEW else ():
            if _USED not in row:  # kept by an earlier version
                self._table.put(session, {**row, _USED: today.isoformat()})
            elif today - date.fromisoformat(str(row[_USED])) > _KEPT:
                self._table.drop(session)
