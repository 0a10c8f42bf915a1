"""Times: the clock, and how answers write a time: RFC 3339, in UTC, with a `Z`."""

from __future__ import annotations

from datetime import MINYEAR, UTC, date, datetime, time
from typing import Annotated, TypeAlias, TypeVar

from pydantic import Field, PlainSerializer

Time: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
_NAMES = frozenset(
    {
        "added_at",
        "at",
        "created_at",
        "due",
        "ended",
        "resolved_at",
        "since",
        "started",
        "timestamp",
        "undone",
        "until",
    }
)
_OTHERS = "steps"  # the arguments of an agent's calls stay as they were
_T = TypeVar("_T")


def time_of(at: datetime, timespec: str = "auto") -> str:
    """That moment, which has a zone, as precise as `timespec` of `isoformat` says. In the
    calendar's first and last hours, where UTC may be beyond it, the nearest that there is.
    """
    try:
        at = at.astimezone(UTC)
    except OverflowError:
        first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
        at = first if at.year == MINYEAR else last
    return at.isoformat(timespec=timespec).replace("+00:00", "Z")


def moment_text(value: date | time) -> str:
    """The same for a moment whose zone is known; others, days and times of day as ISO 8601."""
    return (
        time_of(value)
        if isinstance(value, datetime) and value.tzinfo is not None
        else value.isoformat()
    )


def moment(seconds: float) -> str:
    """The moment so many seconds after 1970; a file may claim a year that no calendar has."""
    try:
        return time_of(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, ValueError, OSError):
        return time_of(datetime.fromtimestamp(0, UTC))


UnixTime: TypeAlias = Annotated[
    float,
    PlainSerializer(moment, return_type=str),
    Field(json_schema_extra={"format": "date-time"}),
]
"""Seconds since 1970; answers have it as a time."""


def _with_z(stored: str) -> str:
    return f"{stored.removesuffix('+00:00')}Z" if stored.endswith("+00:00") else stored


StoredTime: TypeAlias = Annotated[
    str, PlainSerializer(_with_z), Field(json_schema_extra={"format": "date-time"})
]
"""A moment as ISO 8601 in a stored document; answers have it with a `Z`."""


def with_times(document: _T) -> _T:
    """A stored document with its times, known by their names, spelled that way."""
    return _spelled(document, is_time=False)  # type: ignore[return-value]


def _spelled(value: object, *, is_time: bool) -> object:
    if isinstance(value, dict):
        return {
            name: one if name == _OTHERS else _spelled(one, is_time=name in _NAMES)
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_spelled(one, is_time=False) for one in value]
    return _with_z(value) if is_time and isinstance(value, str) else value


def utc_now() -> datetime:
    return datetime.now(UTC)
