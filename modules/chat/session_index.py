"""The index of sessions, in SQLite: lists, searches and pages them. Derived: it can be deleted."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

from .messages import Message
from .session import LinkedBot, Session, SessionPermissions

_VERSION: Final = 4
_SCHEMA = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, id TEXT NOT NULL, para_id TEXT NOT NULL,
    digest TEXT NOT NULL, updated TEXT NOT NULL, archived INTEGER NOT NULL, bot TEXT,
    session TEXT NOT NULL, problems TEXT NOT NULL, edited TEXT NOT NULL DEFAULT '{}');
CREATE INDEX by_id ON sessions (id);
CREATE INDEX by_para_id ON sessions (para_id);
CREATE INDEX by_bot ON sessions (bot) WHERE bot IS NOT NULL;
CREATE INDEX by_time ON sessions (archived, updated DESC, id);
CREATE INDEX all_by_time ON sessions (updated DESC, id);
CREATE TABLE messages (
    session INTEGER NOT NULL, place INTEGER NOT NULL, id TEXT NOT NULL, digest TEXT NOT NULL,
    PRIMARY KEY (session, place)) WITHOUT ROWID;
CREATE INDEX by_message ON messages (id);
CREATE TABLE former_names (path TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID;
CREATE TRIGGER removed AFTER DELETE ON sessions BEGIN
    INSERT OR REPLACE INTO former_names VALUES (old.path, old.id); END;
CREATE TRIGGER renamed AFTER UPDATE OF path ON sessions BEGIN
    INSERT OR REPLACE INTO former_names VALUES (old.path, old.id); END;
CREATE VIRTUAL TABLE texts USING fts5(
    title, summary, tags, body, tokenize = "unicode61 remove_diacritics 2");
"""
_FIRST: Final = (
    "NOT EXISTS (SELECT 1 FROM sessions AS other "
    "WHERE other.id = sessions.id AND other.path < sessions.path)"
)
_COUNTS: Final = (
    "SELECT count(*), coalesce(sum(archived), 0), "  # noqa: S608  no value is in it
    f"coalesce(sum(json_extract(session, '$.message_count')), 0) FROM sessions WHERE {_FIRST}"
)
_WORD = re.compile(r"\w+")
_MOST_WORDS = 20
_DECODED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Entry:
    session: Session
    digest: str
    problems: Sequence[str]
    messages: Sequence[Message]
    body: str


class SessionIndex:
    """Any thread may call it; reading does not wait for writing. A damaged file is replaced."""

    def __init__(self, path: Path) -> None:
        self._writing_lock, self._reading_lock = threading.Lock(), threading.Lock()
        try:
            self._writer = _open(path)
        except sqlite3.DatabaseError:
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            self._writer = _open(path)
        self._reader = sqlite3.connect(
            f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False
        )

    def close(self) -> None:
        with self._reading_lock:
            self._reader.close()
        with self._writing_lock:
            self._writer.close()

    def put(self, entries: Sequence[Entry]) -> None:
        with self._writing() as database:
            for entry in entries:
                _put(database, entry)

    def remove(self, paths: Collection[str]) -> None:
        with self._writing() as database:
            for path in paths:
                _remove(database, path)

    def move(self, source: str, target: str) -> None:
        with self._writing() as database:
            query = "SELECT session FROM sessions WHERE path = ?"
            found = database.execute(query, [source]).fetchone()
            if found is None:
                return
            _remove(database, target)
            moved = json.dumps({**json.loads(found[0]), "path": target})
            database.execute(
                "UPDATE sessions SET path = ?, session = ? WHERE path = ?", [target, moved, source]
            )

    def was_anothers(self, path: str, session_id: str) -> bool:
        asked = "SELECT 1 FROM former_names WHERE path = ? AND id != ?"
        return bool(self._rows(asked, [path, session_id]))

    def digests(self) -> dict[str, str]:
        return dict(self._rows("SELECT path, digest FROM sessions"))

    def digest_of(self, path: str) -> str | None:
        rows = self._rows("SELECT digest FROM sessions WHERE path = ?", [path])
        return str(rows[0][0]) if rows else None

    def is_without_edits(self, path: str, digest: str) -> bool:
        """Whether no message was edited or removed since the last fork."""
        found = self._rows("SELECT digest, edited FROM sessions WHERE path = ?", [path])
        return bool(found) and tuple(found[0]) == (digest, "{}")

    def known_messages(self, path: str) -> dict[str, str]:
        """Digests by id; of a message that was edited since the last fork the first one."""
        for number, edited in self._rows(
            "SELECT number, edited FROM sessions WHERE path = ?", [path]
        ):
            rows = self._rows(
                "SELECT id, digest FROM messages WHERE session = ? ORDER BY place", [number]
            )
            return {**dict(rows), **json.loads(edited)}
        return {}

    def get_session(self, path: str) -> Session | None:
        rows = self._rows("SELECT session FROM sessions WHERE path = ?", [path])
        return _session(rows[0][0]) if rows else None

    def paths_of(self, session_id: str) -> list[str]:
        return self._paths(
            "SELECT path FROM sessions WHERE id = :id UNION SELECT path FROM sessions "
            "WHERE para_id = :id ORDER BY path",
            {"id": session_id},
        )

    def paths_with_message(self, message_id: str) -> list[str]:
        return self._paths(
            "SELECT path FROM messages JOIN sessions ON number = messages.session "
            "WHERE messages.id = ? ORDER BY path",
            [message_id],
        )

    def problems(self) -> dict[str, list[str]]:
        rows = self._rows("SELECT path, problems FROM sessions WHERE problems != '[]'")
        return {path: json.loads(problems) for path, problems in rows}

    def duplicates(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for session_id, path in self._rows(
            "SELECT id, path FROM sessions WHERE id IN "
            "(SELECT id FROM sessions GROUP BY id HAVING count(*) > 1) ORDER BY id, path"
        ):
            found.setdefault(session_id, []).append(path)
        return found

    def counts(self) -> tuple[int, int, int]:
        """Sessions, archived ones among them, and messages."""
        ((sessions, archived, messages),) = self._rows(_COUNTS)
        return sessions, archived, messages

    def paths_of_bot(self, platform: str, chat_id: str) -> list[str]:
        return self._paths(
            "SELECT path FROM sessions WHERE bot = ? ORDER BY updated DESC",
            [f"{platform} {chat_id}"],
        )

    def newest(
        self,
        *,
        words: str = "",
        archived: bool | None = None,
        tag: str | None = None,
        workspace: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 50,
    ) -> list[Session]:
        """Those after `after` (time, id). Of several files with one id, the first counts."""
        first, last = after or (None, None)
        conditions: dict[str, list[object]] = {
            "archived = ?": [archived],
            "updated <= ? AND (updated < ? OR id > ?)": [first, first, last],
            "number IN (SELECT rowid FROM texts WHERE texts MATCH ?)": [
                _query(words) if words.strip() else None
            ],
            "EXISTS (SELECT 1 FROM json_each(session, '$.tags') WHERE value = ?)": [tag],
            "json_extract(session, '$.workspace') = ?": [workspace],
        }
        asked = {one: values for one, values in conditions.items() if None not in values}
        where = " AND ".join([_FIRST, *asked])
        rows = self._rows(
            f"SELECT session FROM sessions WHERE {where} "  # noqa: S608  no value is in it
            "ORDER BY updated DESC, id LIMIT ?",
            [*chain.from_iterable(asked.values()), limit],
        )
        return [_session(text) for (text,) in rows]

    def _paths(self, query: str, values: Sequence[object] | Mapping[str, object]) -> list[str]:
        return [path for (path,) in self._rows(query, values)]

    def _rows(self, query: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        try:
            with self._reading_lock:
                return self._reader.execute(query, values).fetchall()
        except UnicodeEncodeError:  # an id with half a character is that of no row
            return []

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._writing_lock, self._writer:
            yield self._writer


def _remove(database: sqlite3.Connection, path: str) -> None:
    rows = database.execute("SELECT number FROM sessions WHERE path = ?", [path]).fetchall()
    for (number,) in rows:
        database.execute("DELETE FROM sessions WHERE number = ?", [number])
        database.execute("DELETE FROM messages WHERE session = ?", [number])
        database.execute("DELETE FROM texts WHERE rowid = ?", [number])


def _put(database: sqlite3.Connection, entry: Entry) -> None:
    session = entry.session
    before = database.execute(
        "SELECT session, edited FROM sessions WHERE path = ?", [session.path]
    ).fetchone()
    (number,) = database.execute(
        "INSERT INTO sessions (path, id, para_id, digest, updated, archived, bot, session, "
        "problems) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET "
        "id = excluded.id, para_id = excluded.para_id, digest = excluded.digest, "
        "updated = excluded.updated, archived = excluded.archived, bot = excluded.bot, "
        "session = excluded.session, problems = excluded.problems "
        "RETURNING number",
        [
            session.path,
            session.id,
            session.para_id,
            entry.digest,
            session.updated_at,
            session.archived,
            session.linked_bot and f"{session.linked_bot.platform} {session.linked_bot.chat_id}",
            json.dumps(asdict(session)),
            json.dumps(list(entry.problems)),
        ],
    ).fetchone()
    known = database.execute(
        "SELECT id, digest FROM messages WHERE session = ? ORDER BY place", [number]
    ).fetchall()
    now = [(message.id, message.digest) for message in entry.messages]
    same = next(
        (at for at, one in enumerate(known) if at >= len(now) or one != now[at]), len(known)
    )
    if same < len(known):
        database.execute("DELETE FROM messages WHERE session = ? AND place >= ?", [number, same])
    database.executemany(
        "INSERT INTO messages VALUES (?, ?, ?, ?)",
        [(number, place, *one) for place, one in enumerate(now[same:], same)],
    )
    if before is not None:
        edited = _edited(before, session, dict(known), dict(now))
        database.execute(
            "UPDATE sessions SET edited = ? WHERE number = ?", [json.dumps(edited), number]
        )
    database.execute("DELETE FROM texts WHERE rowid = ?", [number])
    database.execute(
        "INSERT INTO texts (rowid, title, summary, tags, body) VALUES (?, ?, ?, ?, ?)",
        [number, session.title or "", session.summary or "", " ".join(session.tags), entry.body],
    )


def _edited(
    before: tuple[str, str], session: Session, known: Mapping[str, str], now: Mapping[str, str]
) -> dict[str, str]:
    """The first digests of messages that are not as they were, until a fork is recorded."""
    if session.forks != _session(before[0]).forks:
        return {}
    first = {**known, **json.loads(before[1])}
    return {one: digest for one, digest in first.items() if now.get(one) != digest}


@lru_cache(_DECODED)  # apps ask for the same list again and again
def _session(text: str) -> Session:
    said = json.loads(text)
    permissions, linked = said.pop("permissions"), said.pop("linked_bot")
    if permissions is not None:
        permissions = SessionPermissions(**_tuples(permissions))
    return Session(
        **_tuples(said),
        permissions=permissions,
        linked_bot=None if linked is None else LinkedBot(**linked),
    )


def _tuples(said: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(one) if isinstance(one, list) else one for key, one in said.items()}


def _query(words: str) -> str:
    """All of these words, the last one as a beginning: people search while they type."""
    found = [f'"{word}"' for word in _WORD.findall(words)[:_MOST_WORDS]]
    return f"{' '.join(found)}*" if found else '""'


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version != _VERSION:  # fails where another version's tables stand
            database.executescript(f"{_SCHEMA}PRAGMA user_version = {_VERSION};")
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database
