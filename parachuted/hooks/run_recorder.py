"""The last runs of hooks, with input and output, to inspect and to run again: one small file a run,
in the private home, since they hold texts of notes. A crash may lose the latest.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from parachuted.home_files.private import as_private
from parachuted.hooks.runner import ProcessResult
from parachuted.texts.times import Time, time_of

log = logging.getLogger(__name__)

_KEPT = 200
_MOST = 64 * 1024
_ID = re.compile("h([0-9]{8,})")


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
    """The last runs, over restarts. Written in one thread, read in any."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        found = (_ID.fullmatch(path.stem) for path in folder.glob("h*.json"))
        self._numbers = sorted(int(match[1]) for match in found if match)

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
        """Record a run, and forget the oldest. A disk error is only logged: the hook has run."""
        number = self._numbers[-1] + 1 if self._numbers else 1
        texts = {"stdin": stdin, "stdout": ran.stdout, "stderr": ran.stderr}
        record = HookRunRecord(
            id=f"h{number:08}",
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
        self._numbers.append(number)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self._path(record.id), "wb", opener=as_private) as file:
                file.write(_RECORD.dump_json(record))
            while len(self._numbers) > _KEPT:
                self._path(f"h{self._numbers.pop(0):08}").unlink(missing_ok=True)
        except OSError as error:
            log.warning("a hook's run could not be recorded", extra={"error": error.strerror})
        return record

    def last(self, count: int) -> list[HookRun]:
        numbers = self._numbers[-count:] if count > 0 else []
        found = (self.get(f"h{number:08}") for number in reversed(numbers))
        return [record for record in found if record is not None]

    def get(self, record_id: str) -> HookRunRecord | None:
        if not _ID.fullmatch(record_id):
            return None
        try:
            return _RECORD.validate_json(self._path(record_id).read_bytes())
        except (OSError, ValidationError):
            return None

    def _path(self, record_id: str) -> Path:
        return self._folder / f"{record_id}.json"


def _text(data: bytes) -> str:
    return data[:_MOST].decode("utf-8", "replace")
