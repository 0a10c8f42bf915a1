"""The activity log in `.parachute/activity` (earlier `Daily/.activity`): a line of JSON an
exchange, one file a day of UTC.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from datetime import date, datetime

from parachuted.access.notes import Activity
from parachuted.audit.files import append, opened
from parachuted.errors import EditRefusedError, StorageFailedError, storage_errors
from parachuted.texts.times import utc_now
from parachuted.texts.visible import one_line
from parachuted.vault import VaultRoot
from parachuted.vault.root import read_all

FOLDER = ".parachute/activity"
_OLDER = "Daily/.activity"
_LONGEST_SUMMARY, _LONGEST_WORD = 4_000, 300
_LARGEST = 32 << 20


class ActivityLog:
    """The log of one vault. Blocks on the disk."""

    def __init__(self, root: VaultRoot, clock: Callable[[], datetime] = utc_now) -> None:
        self._root, self.clock = root, clock

    def append(self, activity: Activity) -> None:
        """Add a line to its day, durably. Raises EditRefusedError, StorageFailedError."""
        if len(activity.summary) > _LONGEST_SUMMARY:
            raise EditRefusedError(f"a summary has at most {_LONGEST_SUMMARY:,} characters")
        entry = {
            "ts": activity.ts,
            "session_id": _word(activity.session_id),
            "session_title": _word(activity.session_title),
            "agent_type": _word(activity.agent_type),
            "exchange_number": activity.exchange_number,
            "summary": activity.summary,
        }
        line = json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with storage_errors("the activity log could not be written"):
            append(self._root, FOLDER, f"{activity.ts[:10]}.jsonl", line, durably=True)

    def read(self, day: str) -> list[Activity]:
        """What was logged that day, oldest first, but for lines that cannot be read. Raises
        EditRefusedError for what is not a day such as 2026-11-23, and StorageFailedError.
        """
        try:
            is_day = date.fromisoformat(day).isoformat() == day
        except ValueError:
            is_day = False
        if not is_day:
            raise EditRefusedError(f"{day[:40]!r} is not a day such as 2026-11-23")
        found = [entry for place in (_OLDER, FOLDER) for entry in self._read(place, f"{day}.jsonl")]
        return sorted(found, key=lambda activity: activity.ts)

    def _read(self, place: str, name: str) -> Iterator[Activity]:
        data = b""
        with (
            storage_errors(f"{place}/{name} could not be read"),
            contextlib.suppress(FileNotFoundError),
            opened(self._root, place, name) as descriptor,
        ):
            if os.fstat(descriptor).st_size > _LARGEST:
                raise StorageFailedError(f"{place}/{name} is too large to be read")
            data = read_all(descriptor)
        for line in data.split(b"\n"):
            with contextlib.suppress(ValueError, RecursionError):
                entry = json.loads(line)
                if isinstance(entry, dict) and isinstance(entry.get("summary"), str):
                    yield _activity(entry)


def _activity(entry: dict[str, object]) -> Activity:
    number = entry.get("exchange_number")
    texts = {
        key: value if isinstance(value := entry.get(key), str) else None
        for key in ("session_id", "session_title", "agent_type")
    }
    return Activity(
        ts=str(entry.get("ts", "")),
        summary=str(entry["summary"]),
        exchange_number=number if isinstance(number, int) else 0,
        **texts,
    )


def _word(text: str | None) -> str | None:
    return None if text is None else one_line(text, _LONGEST_WORD)
