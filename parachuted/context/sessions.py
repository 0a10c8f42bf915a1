"""Sessions: which contexts are chosen for each conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from parachuted.state import StateStore
from parachuted.texts.times import StoredTime
from parachuted.vault import VaultPath

MOST_CHOSEN = 100
_MOST_SESSIONS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """`added_at` is ISO 8601."""

    folder_path: VaultPath
    added_at: StoredTime


class SessionContexts:
    """The table `session_contexts`, unique by session_id and folder_path. Beyond so many sessions
    the oldest is forgotten.
    """

    def __init__(self, state: StateStore, clock: Callable[[], datetime]) -> None:
        self._state, self._clock = state, clock
        self._table = state.table("session_contexts")
        self._load()
        state.on_undone(self._load)

    def of(self, session: str) -> list[SessionContext]:
        """In their order."""
        return list(self._sessions.get(session, {}).values())

    def choose(self, session: str, paths: Iterable[VaultPath]) -> None:
        """Raises ValueError for too many, StorageFailedError."""
        wanted = dict.fromkeys(paths)
        if len(wanted) > MOST_CHOSEN:
            raise ValueError(f"a session has at most {MOST_CHOSEN} contexts")
        known, now = self._sessions.get(session, {}), self._clock().isoformat()
        with self._state.batch():
            self._forget(session)
            for path in wanted:
                chosen = known.get(path) or SessionContext(folder_path=path, added_at=now)
                self._keep(session, chosen)
            while len(self._sessions) > _MOST_SESSIONS:
                self._forget(next(iter(self._sessions)))

    def follow(self, moved: Mapping[VaultPath, VaultPath]) -> int:
        """Sessions that chose an old file have chosen the folder; how many that were."""
        followed = [
            (session, path)
            for session, rows in self._sessions.items()
            for path in rows
            if path in moved
        ]
        with self._state.batch():
            for session, path in followed:
                chosen = self._sessions[session].pop(path)
                self._table.drop(_key(session, path))
                if moved[path] not in self._sessions[session]:
                    self._keep(session, replace(chosen, folder_path=moved[path]))
        return len(followed)

    def _keep(self, session: str, chosen: SessionContext) -> None:
        self._sessions.setdefault(session, {})[chosen.folder_path] = chosen
        row = {
            "session_id": session,
            "folder_path": chosen.folder_path,
            "added_at": chosen.added_at,
        }
        self._table.put(_key(session, chosen.folder_path), row)

    def _forget(self, session: str) -> None:
        for path in self._sessions.pop(session, {}):
            self._table.drop(_key(session, path))

    def _load(self) -> None:
        """Also when changes to the table were undone."""
        self._sessions: dict[str, dict[VaultPath, SessionContext]] = {}
        for row in self._table:
            path = VaultPath(row["folder_path"])
            chosen = SessionContext(folder_path=path, added_at=row["added_at"])
            self._sessions.setdefault(row["session_id"], {})[path] = chosen


def _key(session: str, path: str) -> str:
    return f"{session}\t{path}"
