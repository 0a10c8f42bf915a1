"""Sessions: which contexts are chosen for each conversation, bounded for every caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from parachuted.state import StateStore
from parachuted.texts.times import StoredTime
from parachuted.vault import VaultIndex, VaultPath

MOST_CHOSEN = 100
_MOST_SESSIONS = 10_000
_MOST_SESSIONS_EACH = 1_000
_MOST_ROWS = 50_000
_MOST_ROWS_EACH = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """`added_at` is ISO 8601; `was`: the old file in its place before."""

    folder_path: VaultPath
    added_at: StoredTime
    was: VaultPath | None = None


class SessionContexts:
    """The table `session_contexts`, unique by session_id and folder_path.

    Beyond its bounds an owner's oldest choice is forgotten, and of all owners that of the one with
    the most: no key can push out what others chose.
    """

    def __init__(self, state: StateStore, index: VaultIndex, clock: Callable[[], datetime]) -> None:
        self._state, self._index, self._clock = state, index, clock
        self._table = state.table("session_contexts")
        self._load()
        state.on_undone(self._load)

    def of(self, session: str) -> list[SessionContext]:
        """In their order. An old file that is back, since its move was undone, counts again."""
        return [
            SessionContext(folder_path=chosen.was, added_at=chosen.added_at)
            if chosen.was and self._index.get(chosen.was)
            else chosen
            for chosen in self._sessions.get(session, {}).values()
        ]

    def choose(self, session: str, paths: Iterable[VaultPath], owner: str = "") -> None:
        """`owner` is the key that chose first. ValueError for too many, StorageFailedError."""
        wanted = dict.fromkeys(paths)
        if len(wanted) > MOST_CHOSEN:
            raise ValueError(f"a session has at most {MOST_CHOSEN} contexts")
        known = {chosen.folder_path: chosen for chosen in self.of(session)}
        now = self._clock().isoformat()
        with self._state.batch():
            for path in self._sessions.pop(session, {}):
                self._table.drop(_key(session, path))
            rows = {
                path: known.get(path) or SessionContext(folder_path=path, added_at=now)
                for path in wanted
            }
            if rows:
                self._sessions[session] = rows
                self._owners.setdefault(session, owner)
                for chosen in rows.values():
                    self._keep(session, chosen)
                self._forget_oldest(self._owners[session])
            else:
                self._owners.pop(session, None)

    def follow(self, moved: Mapping[VaultPath, VaultPath]) -> int:
        """Sessions that chose an old file have chosen the folder; how many that were."""
        count = 0
        with self._state.batch():
            for session, rows in self._sessions.items():
                for path in [path for path in rows if path in moved]:
                    chosen = rows.pop(path)
                    self._table.drop(_key(session, path))
                    follows = replace(chosen, folder_path=moved[path], was=path)
                    self._keep(session, rows.setdefault(moved[path], follows))
                    count += 1
        return count

    def _keep(self, session: str, chosen: SessionContext) -> None:
        row = {
            "session_id": session,
            "folder_path": chosen.folder_path,
            "added_at": chosen.added_at,
            "was": chosen.was,
            "owner": self._owners.get(session, ""),
        }
        self._table.put(_key(session, chosen.folder_path), row)

    def _forget_oldest(self, owner: str) -> None:
        counts = Counter(self._owners.get(session, "") for session in self._sessions)
        while counts[owner] > _MOST_SESSIONS_EACH or self._rows_of(owner) > _MOST_ROWS_EACH:
            self._forget_oldest_of(owner)
            counts[owner] -= 1
        while len(self._sessions) > _MOST_SESSIONS or self._rows_of(None) > _MOST_ROWS:
            largest = max(counts, key=lambda one: counts[one])
            self._forget_oldest_of(largest)
            counts[largest] -= 1

    def _rows_of(self, owner: str | None) -> int:
        return sum(
            len(rows)
            for session, rows in self._sessions.items()
            if owner in {None, self._owners.get(session, "")}
        )

    def _forget_oldest_of(self, owner: str) -> None:
        oldest = next(
            session for session in self._sessions if self._owners.get(session, "") == owner
        )
        self._owners.pop(oldest, None)
        for path in self._sessions.pop(oldest):
            self._table.drop(_key(oldest, path))

    def _load(self) -> None:
        """Also when changes to the table were undone."""
        self._sessions: dict[str, dict[VaultPath, SessionContext]] = {}
        self._owners: dict[str, str] = {}
        for row in self._table:
            was = row.get("was")
            chosen = SessionContext(
                folder_path=VaultPath(row["folder_path"]),
                added_at=row["added_at"],
                was=None if was is None else VaultPath(was),
            )
            self._sessions.setdefault(row["session_id"], {})[chosen.folder_path] = chosen
            self._owners.setdefault(row["session_id"], row.get("owner", ""))


def _key(session: str, path: str) -> str:
    return f"{session}\t{path}"
