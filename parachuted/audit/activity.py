"""The activity log: what was talked about, a line of JSON for each exchange, one file a day of UTC.

`.parachute/activity/2026-11-23.jsonl` in the vault; days of the older layout, in `Daily/.activity`,
are read as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from datetime import date, datetime

from parachuted.access.notes import Activity
from parachuted.access.origin import UNTRUSTED
from parachuted.errors import EditRefusedError, StorageFailedError
from parachuted.times import time_of
from parachuted.vault import VaultRoot
from parachuted.vault.root import read_all
from parachuted.visible import one_line

FOLDER = ".parachute/activity"
_OLDER = "Daily/.activity"
_LONGEST_SUMMARY, _LONGEST_WORD = 4_000, 300
_LARGEST = 32 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ActivityLog:
    """The log of one vault. Its calls read or write the disk."""

    def __init__(self, root: VaultRoot) -> None:
        self._root = root

    def append(self, activity: Activity, at: datetime) -> None:
        """Add a line, on the disk when this returns. Raises EditRefusedError, StorageFailedError.

        `at` is aware; its day of UTC names the file.
        """
        if len(activity.summary) > _LONGEST_SUMMARY:
            raise EditRefusedError(
                f"a summary of an activity has at most {_LONGEST_SUMMARY:,} characters"
            )
        entry = {
            "ts": activity.ts,
            "session_id": _word(activity.session_id),
            "session_title": _word(activity.session_title),
            "agent_type": _word(activity.agent_type),
            "exchange_number": activity.exchange_number,
            "summary": activity.summary,
        } | ({"origin": activity.origin} if activity.origin is not None else {})
        line = json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        name = f"{time_of(at)[:10]}.jsonl"
        try:
            with (
                self._root.opened_folder(FOLDER, create=True) as folder,
                _opened(folder, name, _APPEND) as descriptor,
            ):
                size = os.fstat(descriptor).st_size
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    line = b"\n" + line
                os.write(descriptor, line)
                os.fsync(descriptor)
        except OSError as error:
            raise StorageFailedError(
                f"the activity log could not be written: {error.strerror}", errno=error.errno
            ) from error

    def read(self, day: str) -> list[Activity]:
        """What was logged that day, oldest first; lines that cannot be read are left out.

        Raises EditRefusedError for what is not a day such as 2026-11-23, and StorageFailedError.
        """
        try:
            if date.fromisoformat(day).isoformat() != day:
                raise ValueError(day)  # noqa: TRY301  both mean the same
        except ValueError as error:
            raise EditRefusedError(f"{day[:40]!r} is not a day such as 2026-11-23") from error
        found = [one for place in (_OLDER, FOLDER) for one in self._read(place, f"{day}.jsonl")]
        return sorted(found, key=lambda one: one.ts)

    def _read(self, place: str, name: str) -> Iterator[Activity]:
        try:
            with (
                self._root.opened_folder(place) as folder,
                _opened(folder, name, _READ) as descriptor,
            ):
                if os.fstat(descriptor).st_size > _LARGEST:
                    raise StorageFailedError(f"{place}/{name} is too large to be read")
                data = read_all(descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageFailedError(
                f"{place}/{name} could not be read: {error.strerror}", errno=error.errno
            ) from error
        for line in data.split(b"\n"):
            with contextlib.suppress(ValueError, RecursionError):
                entry = json.loads(line)
                if isinstance(entry, dict) and isinstance(entry.get("summary"), str):
                    yield _activity(entry)


def _activity(entry: dict[str, object]) -> Activity:
    number, origin = entry.get("exchange_number"), entry.get("origin")
    texts = {
        key: value if isinstance(value := entry.get(key), str) else None
        for key in ("session_id", "session_title", "agent_type")
    }
    return Activity(
        ts=str(entry.get("ts", "")),
        summary=str(entry["summary"]),
        exchange_number=number if isinstance(number, int) else 0,
        origin=next((one for one in UNTRUSTED if one == origin), None),
        **texts,
    )


def _word(text: str | None) -> str | None:
    return None if text is None else one_line(text, _LONGEST_WORD)


@contextlib.contextmanager
def _opened(folder: int, name: str, flags: int) -> Iterator[int]:
    """A regular file. Raises OSError, also where something else lies there."""
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a file")
        yield descriptor
    finally:
        os.close(descriptor)
