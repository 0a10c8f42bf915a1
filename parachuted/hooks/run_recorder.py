"""The last runs of hooks, with input and output, to inspect and to run again: in the private home,
since they hold texts of notes. A power cut may lose the latest.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter

from parachuted.errors import StorageFailedError
from parachuted.hooks.runner import ProcessResult
from parachuted.state import Database
from parachuted.texts.times import Time, time_of

log = logging.getLogger(__name__)

_MOST_RUNS = 200
_MOST = 64 * 1024
_ID = re.compile("h([0-9]{8,18})")


@dataclass(frozen=True, kw_only=True)
class HookRun:
    """`decision`: what its answer came to, in a word and a reason."""

    id: str
    hook: str
    event: str
    at: Time
    decision: str
    exit_code: int | None
    timed_out: bool
    problem: str | None
    took_ms: float


@dataclass(frozen=True, kw_only=True)
class HookRunRecord(HookRun):
    """The same with what went in and came out, each at most 64 KB; `cut` names longer ones."""

    stdin: str
    stdout: str
    stderr: str
    cut: tuple[str, ...] = ()


_RECORD = TypeAdapter(HookRunRecord)


class HookRunRecorder:
    """The last runs, over restarts. May be used from any thread."""

    def __init__(self, path: Path) -> None:
        self._database = Database(
            path,
            label="the record of hooks' runs",
            loss="earlier runs of hooks cannot be shown",
            migrations={1: "CREATE TABLE runs (number INTEGER PRIMARY KEY, document TEXT);"},
            is_derived=True,
        )

    def add(
        self,
        *,
        hook: str,
        event: str,
        at: datetime,
        stdin: bytes,
        ran: ProcessResult,
        decision: str,
    ) -> HookRunRecord:
        """Record a run, and forget the oldest. A disk error is only logged: the hook has run."""
        texts = {"stdin": stdin, "stdout": ran.stdout, "stderr": ran.stderr}
        record = HookRunRecord(
            id="",
            hook=hook,
            event=event,
            at=time_of(at),
            decision=decision,
            exit_code=ran.exit_code,
            timed_out=ran.timed_out,
            problem=ran.problem,
            took_ms=round(ran.took_ms, 3),
            stdin=_text(stdin),
            stdout=_text(ran.stdout),
            stderr=_text(ran.stderr),
            cut=tuple(name for name, text in texts.items() if len(text) > _MOST),
        )
        document = _RECORD.dump_json(record, exclude={"id"}).decode()
        try:
            with self._database.write() as database:
                sql = "INSERT INTO runs (document) VALUES (?)"
                number = database.execute(sql, (document,)).lastrowid or 0
                database.execute("DELETE FROM runs WHERE number <= ?", (number - _MOST_RUNS,))
        except StorageFailedError as error:
            log.warning("a hook's run could not be recorded", extra={"error": error.message})
            return record
        return replace(record, id=_id(number))

    def last(self, count: int) -> list[HookRun]:
        """The newest first."""
        sql = "SELECT number, document FROM runs ORDER BY number DESC LIMIT ?"
        return [_record(*row) for row in self._database.rows(sql, (count,))]

    def get(self, record_id: str) -> HookRunRecord | None:
        if (found := _ID.fullmatch(record_id)) is None:
            return None
        sql = "SELECT number, document FROM runs WHERE number = ?"
        rows = self._database.rows(sql, (int(found[1]),))
        return _record(*rows[0]) if rows else None

    def close(self) -> None:
        self._database.close()


def _id(number: int) -> str:
    return f"h{number:08}"


def _record(number: int, document: str) -> HookRunRecord:
    return _RECORD.validate_python({**json.loads(document), "id": _id(number)})


def _text(data: bytes) -> str:
    return data[:_MOST].decode("utf-8", "replace")
