"""Session taint: whose a session is, and what its runs have read of strangers' texts. Who resumes a session has read all of it."""

from __future__ import annotations

from typing import cast

from parachuted.access.origin import Origin, Taint
from parachuted.state import State

_TABLE = "session_taint"
_MOST = 50


class SessionTaints:
    """Kept with the state, by the session's id. Without the state there are no sessions to go on with either."""

    def __init__(self, state: State) -> None:
        self._table = state.table(_TABLE)

    def recall(self, session: str, taint: Taint) -> None:
        """The run goes on with that session."""
        row = self._table.take(session)
        for source, origin in cast("dict[str, Origin]", row["sources"]).items() if row is not None else ():
            taint.read(source, origin)

    def owner(self, session: str) -> str | None:
        """The agent that the session is one of; None: that is not known. Another one would learn from it what it may not read itself."""
        row = self._table.take(session)
        return str(row["agent"]) if row is not None else None

    def keep(self, session: str, taint: Taint, *, agent: str) -> None:
        """The run of that agent has ended, and its session can be resumed. Raises StorageFailedError."""
        row = {"agent": self.owner(session) or agent, "sources": dict(list(taint.sources.items())[:_MOST])}
        if self._table.take(session) != row:
            self._table.put(session, row)
