"""Session taint: what the runs of one session have read of strangers' texts. Who resumes a session has read all of it."""

from __future__ import annotations

from typing import cast

from parachuted.grants.origin import Origin, Taint
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

    def keep(self, session: str, taint: Taint) -> None:
        """The run has ended, and that session can be resumed. Raises StorageFailedError."""
        if taint:
            self._table.put(session, {"sources": dict(list(taint.sources.items())[:_MOST])})
