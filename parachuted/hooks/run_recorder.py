"""The last runs of hooks, with input and output, to inspect and to run again.

One small file a run, in the machine's private home, since they hold texts of notes. None is the
only copy of anything: a crash may lose the latest, and an unreadable file is ignored.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from parachuted.hooks.runner import ProcessResult

FOLDER = "hooks"
"""Its name among what is derived from a vault."""

log = logging.getLogger(__name__)

_KEPT = 200
_MOST = 64 * 1024
_SUFFIX = ".json"
_DIGITS = 8


class HookRunRecord(BaseModel):
    """One run.

    `decision`: what its answer came to, in a word and a reason. Texts are cut at 64 KB each.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    hook: str
    event: str
    at: datetime
    decision: str
    exit_code: int | None
    timed_out: bool
    problem: str | None
    took_ms: float
    strays: int = 0
    stdin: str
    stdout: str
    stderr: str
    is_stdin_cut: bool = False
    is_stdout_cut: bool = False
    is_stderr_cut: bool = False


class HookRunRecorder:
    """The last runs, over restarts. May be used from any thread.

    Who keeps one does not wait for the disk: a thread that lives as long as there is something to
    write does, and our end waits for it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = threading.Condition()
        self._ids = deque(sorted(_numbers(folder)))
        self._unwritten: dict[str, HookRunRecord] = {}
        self._doomed: list[str] = []
        self._is_writing = False

    def keep(
        self,
        *,
        hook: str,
        event: str,
        at: datetime,
        stdin: bytes,
        ran: ProcessResult,
        decision: str,
    ) -> HookRunRecord:
        """Record a run, and forget the oldest.

        A disk error is only logged: the hook has run already.
        """
        with self._changed:
            number = self._ids[-1] + 1 if self._ids else 1
            record = _make_record(_name(number), hook, event, at, stdin, ran, decision)
            self._ids.append(number)
            self._unwritten[record.id] = record
            while len(self._ids) > _KEPT:
                gone = _name(self._ids.popleft())
                self._unwritten.pop(gone, None)
                self._doomed.append(gone)
            if not self._is_writing:
                self._begin_writing()
        return record

    def flush(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_writing)

    def last(self, count: int) -> tuple[HookRunRecord, ...]:
        with self._changed:
            numbers = list(self._ids)[-count:] if count > 0 else []
        records = (self.get(_name(number)) for number in reversed(numbers))
        return tuple(record for record in records if record is not None)

    def get(self, record_id: str) -> HookRunRecord | None:
        """One run; None: there is none of that name, or not any more."""
        if not _is_name(record_id):
            return None
        with self._changed:
            if (record := self._unwritten.get(record_id)) is not None:
                return record
        try:
            return HookRunRecord.model_validate_json(self._path(record_id).read_bytes())
        except (OSError, ValidationError):
            return None

    def _begin_writing(self) -> None:
        self._is_writing = True
        try:
            threading.Thread(target=self._write_all, name="hook-runs").start()
        except RuntimeError:  # no thread can be had, as at our end
            self._changed.release()
            try:
                self._write_all()
            finally:
                self._changed.acquire()

    def _write_all(self) -> None:
        while True:
            with self._changed:
                record = next(iter(self._unwritten.values()), None)
                doomed, self._doomed = self._doomed, []
                if record is None and not doomed:
                    self._is_writing = False
                    self._changed.notify_all()
                    return
            try:
                if record is not None:
                    self._write(record)
                for name in doomed:
                    self._path(name).unlink(missing_ok=True)
            except OSError as error:
                log.warning("a hook's run could not be recorded", extra={"error": error.strerror})
            with self._changed:
                if record is not None:
                    self._unwritten.pop(record.id, None)

    def _write(self, record: HookRunRecord) -> None:
        """One that is cut short by a crash cannot be read, so it is none."""
        path, data = self._path(record.id), record.model_dump_json().encode()
        try:
            file = open(path, "wb", opener=_private)  # noqa: SIM115  pathlib's has no opener; it is closed below
        except FileNotFoundError:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = open(path, "wb", opener=_private)  # noqa: SIM115  the same
        with file:
            file.write(data)

    def _path(self, record_id: str) -> Path:
        return self._folder / f"{record_id}{_SUFFIX}"


def _make_record(
    name: str, hook: str, event: str, at: datetime, stdin: bytes, ran: ProcessResult, decision: str
) -> HookRunRecord:
    return HookRunRecord(
        id=name,
        hook=hook,
        event=event,
        at=at,
        decision=decision,
        exit_code=ran.exit_code,
        timed_out=ran.timed_out,
        problem=ran.problem,
        took_ms=round(ran.took_ms, 3),
        strays=ran.strays,
        stdin=_text(stdin),
        stdout=_text(ran.stdout),
        stderr=_text(ran.stderr),
        is_stdin_cut=len(stdin) > _MOST,
        is_stdout_cut=len(ran.stdout) > _MOST,
        is_stderr_cut=len(ran.stderr) > _MOST,
    )


def _numbers(folder: Path) -> list[int]:
    try:
        names = [
            path.name.removesuffix(_SUFFIX) for path in folder.iterdir() if path.suffix == _SUFFIX
        ]
    except OSError:
        return []
    return [int(name[1:]) for name in names if _is_name(name)]


def _name(number: int) -> str:
    return f"h{number:0{_DIGITS}}"


def _is_name(text: str) -> bool:
    return (
        text.startswith("h") and len(text) > _DIGITS and text[1:].isascii() and text[1:].isdigit()
    )


def _text(data: bytes) -> str:
    return data[:_MOST].decode("utf-8", "replace")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
