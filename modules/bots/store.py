"""What the module remembers of chats: which updates came, how far each was answered, who asked to
be paired. SQLite, and on the disk before a method returns.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import string
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from .connector import ChatType, Incoming

_MOST_DONE: Final = 5_000
_LETTERS: Final = string.ascii_lowercase + string.digits
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS updates (
    number INTEGER PRIMARY KEY, platform TEXT NOT NULL, update_id TEXT NOT NULL,
    chat_id TEXT NOT NULL, parent_id TEXT NOT NULL, source_id TEXT NOT NULL, incoming TEXT NOT NULL,
    session_id TEXT NOT NULL DEFAULT '', message_id TEXT NOT NULL DEFAULT '',
    sent TEXT NOT NULL DEFAULT '[]', is_sending INTEGER NOT NULL DEFAULT 0,
    is_done INTEGER NOT NULL DEFAULT 0, UNIQUE (platform, update_id));
CREATE INDEX IF NOT EXISTS by_source ON updates (platform, source_id);
CREATE INDEX IF NOT EXISTS waiting ON updates (platform, number) WHERE is_done = 0;
CREATE TABLE IF NOT EXISTS questions (
    platform TEXT NOT NULL, chat_id TEXT NOT NULL, parent_id TEXT NOT NULL,
    message_id TEXT NOT NULL, session_id TEXT NOT NULL, request_id TEXT NOT NULL,
    question TEXT NOT NULL, options TEXT NOT NULL, owner TEXT NOT NULL,
    PRIMARY KEY (platform, chat_id, message_id));
CREATE TABLE IF NOT EXISTS groups (
    platform TEXT NOT NULL, chat_id TEXT NOT NULL, added_by TEXT NOT NULL,
    PRIMARY KEY (platform, chat_id));
CREATE TABLE IF NOT EXISTS cursors (platform TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pairings (
    platform TEXT NOT NULL, sender_id TEXT NOT NULL, sender_name TEXT NOT NULL,
    chat_id TEXT NOT NULL, code TEXT NOT NULL, at REAL NOT NULL, tries INTEGER NOT NULL,
    PRIMARY KEY (platform, sender_id));
"""
_LAST_SAID: Final = (
    "SELECT platform, incoming, max(number) AS number FROM updates "
    "WHERE incoming ->> 'kind' = 'message' GROUP BY platform, chat_id"
)
_OLD: Final = "DELETE FROM updates WHERE is_done = 1 AND number <= ? AND number NOT IN "
_FORGET_OLD: Final = f"{_OLD}(SELECT number FROM ({_LAST_SAID}))"  # noqa: S608  our query

Result = TypeVar("Result")


@dataclass(slots=True, kw_only=True)
class Update:
    """Something that came, and how far it was answered. `message_id` is its message's in the
    session; `sent` are the platform's ids of the answer's messages. `is_sending`: one of them was
    being sent, and it is not known whether it was.
    """

    number: int
    platform: str
    incoming: Incoming
    session_id: str = ""
    message_id: str = ""
    sent: list[str] = field(default_factory=list)
    is_sending: bool = False

    @property
    def key(self) -> str:
        """Twelve letters and digits that no other update has, the same each time it comes."""
        named = f"{self.platform}\0{self.incoming.chat_id}\0{self.incoming.update_id}"
        number = int.from_bytes(hashlib.sha256(named.encode()).digest())
        return "".join(_LETTERS[number // 36**place % 36] for place in range(12))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """A question of an agent's that stands in a chat. `owner` is who may answer it; empty: no one.
    Without a `session_id` it is a suggestion, whose id is `request_id`.
    """

    platform: str
    chat_id: str
    parent_id: str
    message_id: str
    session_id: str
    request_id: str
    question: str
    options: tuple[str, ...]
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingRequest:
    """Somebody who wrote to the bot and is not paired. `tries` counts their codes."""

    platform: str
    sender_id: str
    sender_name: str
    chat_id: str
    code: str
    at: float
    tries: int


class Store:
    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._lock = threading.Lock()
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(_SCHEMA)
        path.chmod(0o600)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    async def add(self, platform: str, incoming: Incoming) -> Update | None:
        """None: it is a duplicate."""
        document = json.dumps(incoming.document())
        rows = await self._select(
            "INSERT OR IGNORE INTO updates (platform, update_id, chat_id, parent_id, source_id, "
            "incoming) VALUES (?, ?, ?, ?, ?, ?) RETURNING number",
            platform,
            incoming.update_id,
            incoming.chat_id,
            incoming.parent_id,
            incoming.message_id,
            document,
        )
        if not rows:
            return None
        number = rows[0]["number"]
        if number % 100 == 0:
            await self._write(_FORGET_OLD, number - _MOST_DONE)
        return Update(number=number, platform=platform, incoming=incoming)

    async def waiting(self, platform: str) -> list[Update]:
        query = "SELECT * FROM updates WHERE platform = ? AND is_done = 0 ORDER BY number"
        return [_update(row) for row in await self._select(query, platform)]

    async def message_of(self, platform: str, chat_id: str, source_id: str) -> Update | None:
        """The update that brought a message of a chat, if it is one of a session's."""
        rows = await self._select(
            "SELECT * FROM updates WHERE platform = ? AND source_id = ? AND message_id <> '' "
            "AND ? IN (chat_id, parent_id) ORDER BY number LIMIT 1",
            platform,
            source_id,
            chat_id,
        )
        return _update(rows[0]) if rows else None

    async def save(self, update: Update) -> None:
        await self._write(
            "UPDATE updates SET session_id = ?, message_id = ?, sent = ?, is_sending = ? "
            "WHERE number = ?",
            update.session_id,
            update.message_id,
            json.dumps(update.sent),
            update.is_sending,
            update.number,
        )

    async def finish(self, update: Update) -> None:
        """Its text is not kept."""
        incoming = json.dumps({**update.incoming.document(), "text": "", "quote": None})
        query = "UPDATE updates SET is_done = 1, incoming = ? WHERE number = ?"
        await self._write(query, incoming, update.number)

    async def migrate(
        self, platform: str, chat_id: str, new_chat_id: str, chat_type: ChatType
    ) -> None:
        """A chat has another id from now on, or is of another type, as its threads are then."""
        await self._write(
            "UPDATE updates SET incoming = json_set(incoming, '$.chat_type', ?, '$.chat_id', "
            "iif(chat_id = ?, ?, chat_id)) WHERE platform = ? AND ? IN (chat_id, parent_id)",
            chat_type,
            chat_id,
            new_chat_id,
            platform,
            chat_id,
        )
        for table in ("updates", "questions", "groups", "pairings"):
            query = f"UPDATE OR REPLACE {table} SET chat_id = ? WHERE platform = ? AND chat_id = ?"  # noqa: S608  our tables
            await self._write(query, new_chat_id, platform, chat_id)

    async def ask(self, asked: AskedQuestion) -> None:
        values = {**asdict(asked), "options": json.dumps(asked.options)}.values()
        await self._write(
            "INSERT OR REPLACE INTO questions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *values
        )

    async def question(self, platform: str, chat_id: str, message_id: str) -> AskedQuestion | None:
        """The question that a message asks, while it is open."""
        rows = await self._select(
            "SELECT * FROM questions WHERE platform = ? AND message_id = ? "
            "AND ? IN (chat_id, parent_id)",
            platform,
            message_id,
            chat_id,
        )
        return _question(rows[0]) if rows else None

    async def questions_of(self, session_id: str, request_id: str = "") -> list[AskedQuestion]:
        query = "SELECT * FROM questions WHERE session_id = ? AND ? IN ('', request_id)"
        return [_question(row) for row in await self._select(query, session_id, request_id)]

    async def last_said(self, platform: str, chat_id: str, session_id: str) -> Incoming | None:
        """The last message of a chat that is in the session; its text may be gone."""
        rows = await self._select(
            "SELECT incoming FROM updates WHERE platform = ? AND chat_id = ? AND session_id = ? "
            "AND message_id <> '' ORDER BY number DESC LIMIT 1",
            platform,
            chat_id,
            session_id,
        )
        return Incoming.of(json.loads(rows[0][0])) if rows else None

    async def answered(self, asked: AskedQuestion) -> bool:
        """Forget a question; whether it was open."""
        query = "DELETE FROM questions WHERE platform = ? AND chat_id = ? AND message_id = ?"
        return await self._write(query, asked.platform, asked.chat_id, asked.message_id)

    async def add_group(self, platform: str, chat_id: str, added_by: str) -> None:
        query = "INSERT OR REPLACE INTO groups VALUES (?, ?, ?)"
        await self._write(query, platform, chat_id, added_by)

    async def added_by(self, platform: str, chat_id: str) -> str:
        """Which person, paired then, has added the bot there; empty: none."""
        query = "SELECT added_by FROM groups WHERE platform = ? AND chat_id = ?"
        return "".join(row[0] for row in await self._select(query, platform, chat_id))

    async def chats(self) -> list[tuple[str, Incoming]]:
        """The last message of each chat that a person wrote in, and its platform."""
        rows = await self._select(_LAST_SAID)
        return [(row["platform"], Incoming.of(json.loads(row["incoming"]))) for row in rows]

    async def sessions(self, platform: str, chat_id: str) -> list[str]:
        """The newest first."""
        query = (
            "SELECT session_id, max(number) FROM updates WHERE platform = ? AND chat_id = ? "
            "AND message_id <> '' GROUP BY session_id ORDER BY 2 DESC"
        )
        return [row[0] for row in await self._select(query, platform, chat_id)]

    async def senders(self, platform: str, chat_id: str) -> list[str]:
        query = (
            "SELECT DISTINCT incoming ->> 'sender_id' FROM updates WHERE platform = ? "
            "AND chat_id = ? AND incoming ->> 'kind' = 'message'"
        )
        return [row[0] for row in await self._select(query, platform, chat_id)]

    async def cursor(self, platform: str) -> str:
        query = "SELECT text FROM cursors WHERE platform = ?"
        return "".join(row[0] for row in await self._select(query, platform))

    async def put_cursor(self, platform: str, text: str) -> None:
        await self._write("INSERT OR REPLACE INTO cursors VALUES (?, ?)", platform, text)

    async def pairings(self) -> list[PairingRequest]:
        """The oldest first."""
        rows = await self._select("SELECT * FROM pairings ORDER BY at")
        return [PairingRequest(**dict(row)) for row in rows]

    async def put_pairing(self, request: PairingRequest) -> None:
        query = "INSERT OR REPLACE INTO pairings VALUES (?, ?, ?, ?, ?, ?, ?)"
        await self._write(query, *asdict(request).values())

    async def drop_pairing(self, platform: str, sender_id: str, code: str) -> bool:
        query = "DELETE FROM pairings WHERE platform = ? AND sender_id = ? AND code = ?"
        return await self._write(query, platform, sender_id, code)

    async def forget(self, platform: str) -> None:
        """The platform was removed. Who added the bot to a group is not said again: that stays."""
        for table in ("updates", "questions", "cursors", "pairings"):
            await self._write(f"DELETE FROM {table} WHERE platform = ?", platform)  # noqa: S608  our tables

    async def _select(self, query: str, *values: Any) -> list[sqlite3.Row]:  # noqa: ANN401  what SQLite takes
        return await self._do(lambda: self._db.execute(query, values).fetchall())

    async def _write(self, statement: str, *values: Any) -> bool:  # noqa: ANN401  the same
        return await self._do(lambda: self._db.execute(statement, values).rowcount > 0)

    async def _do(self, work: Callable[[], Result]) -> Result:
        def locked() -> Result:
            with self._lock:
                return work()

        return await asyncio.to_thread(locked)


class StoredCursor:
    def __init__(self, store: Store, platform: str) -> None:
        self._store, self._platform = store, platform

    async def get(self) -> str:
        return await self._store.cursor(self._platform)

    async def put(self, text: str) -> None:
        await self._store.put_cursor(self._platform, text)


def _update(row: sqlite3.Row) -> Update:
    return Update(
        number=row["number"],
        platform=row["platform"],
        incoming=Incoming.of(json.loads(row["incoming"])),
        session_id=row["session_id"],
        message_id=row["message_id"],
        sent=json.loads(row["sent"]),
        is_sending=bool(row["is_sending"]),
    )


def _question(row: sqlite3.Row) -> AskedQuestion:
    return AskedQuestion(**{**dict(row), "options": tuple(json.loads(row["options"]))})


def now() -> float:
    return time.time()
