"""Origin: where a text came from, and how reading it restricts a run.

The method is information-flow control with one label, as in Denning's lattice (1976): what a run
has read marks all that it does after. A run that resumes a session has read all of that session.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Literal, TypeAlias, cast

from parachuted.state import StateStore
from parachuted.vault import printable

Origin: TypeAlias = Literal["you", "agent", "bot", "imported", "web"]
UNTRUSTED: frozenset[Origin] = frozenset({"bot", "imported", "web"})
_MOST_TOLD = 20
_WORDS = "\0"  # no path holds it


class Taint:
    """The untrusted texts that one run has read. It only grows, and ends with the run."""

    __slots__ = ("_at_first", "_sources")

    def __init__(self) -> None:
        self._sources: dict[str, Origin] = {}
        self._at_first: list[Callable[[], object]] = []

    def read(self, source: str, origin: Origin) -> None:
        """Record a text that the run has read: `source` is a file's path, or names it by one."""
        if origin not in UNTRUSTED:
            return
        is_first = not self._sources
        self._sources.setdefault(source, origin)
        if is_first:
            for act in self._at_first:
                act()

    def read_words(self, words: str, origin: Origin) -> None:
        """Record a text that is in no file; `words` say what it is, and anyone may see them, such
        as `the prompt` or `an answer of example.org`.
        """
        self.read(f"{_WORDS}{words}", origin)

    def at_first(self, act: Callable[[], object]) -> None:
        """Call the function before the run sees its first untrusted text, in the reading thread, so
        it must not block.
        """
        self._at_first.append(act)

    def __bool__(self) -> bool:
        return bool(self._sources)

    @property
    def sources(self) -> dict[str, Origin]:
        return dict(self._sources)

    @property
    def origin(self) -> Origin:
        """The origin of what it writes from now on: an agent, or the first untrusted source that it
        read.
        """
        return next(iter(self._sources.values()), "agent")

    def why(self, may_read: Callable[[str], bool] = lambda _path: True) -> str:
        """What it has read, in words for the agent and the person.

        Files that may not be read, which others read for the run, are counted and not named.
        """
        known = {
            source: origin
            for source, origin in self._sources.items()
            if source.startswith(_WORDS) or may_read(source)
        }
        named = [
            f"{printable(source.removeprefix(_WORDS))} ({origin})"
            for source, origin in list(known.items())[:_MOST_TOLD]
        ]
        if len(known) < len(self._sources):
            named.append(f"{len(self._sources) - len(known)} that it may not open")
        return f"this run has read text of strangers: {', '.join(named)}"


_TABLE = "session_taint"
_MOST = 50
_USED = "used"
_FEW = 1_000
_KEPT = timedelta(days=90)  # the CLI clears away a session that was not continued for 30


class SessionTaints:
    """Stored in the state by the session's id, until long after it can be resumed.

    Without the state no session can be resumed.
    """

    def __init__(self, state: StateStore, clock: Callable[[], datetime]) -> None:
        self._state, self._table, self._clock = state, state.table(_TABLE), clock

    def recall(self, session: str, taint: Taint) -> None:
        row = self._table.get_record(session)
        for source, origin in (
            cast("dict[str, Origin]", row["sources"]).items() if row is not None else ()
        ):
            taint.read(source, origin)

    def owner(self, session: str) -> str | None:
        """The agent that the session belongs to; None: unknown.

        Another agent would learn from it what it may not read itself.
        """
        row = self._table.get_record(session)
        return str(row["agent"]) if row is not None else None

    def keep(self, session: str, taint: Taint, *, agent: str) -> None:
        """The run of that agent has ended, and its session can be resumed.

        Raises StorageFailedError.
        """
        today = self._clock().date()
        sources = dict(list(taint.sources.items())[:_MOST])
        row = {"agent": self.owner(session) or agent, "sources": sources, _USED: today.isoformat()}
        if self._table.get_record(session) == row:
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
