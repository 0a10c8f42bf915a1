"""The bodies of Daily's requests and answers, and their lines for a person at a terminal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import BaseModel, Field

from .entry import PLACEHOLDER, Entry, Kind
from .layouts import Dated
from .reflection import OpenLoop

_SNIPPET = 200
Moment: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""A time in ISO 8601 with the offset of where the entry was written, which decides its day."""


class EntryMetadata(BaseModel):
    """`audio` and `image` are paths below `Daily/`; agents see nothing that is `private`."""

    type: Kind = "text"
    audio: str | None = None
    image: str | None = None
    duration: int | None = None
    private: bool = False

    def entry(self, title: str, content: str) -> Entry:
        has_text = bool(content.strip())
        status = None if self.audio is None else "complete" if has_text else "pending"
        return Entry(
            title=title,
            body=content if has_text or self.audio is None else PLACEHOLDER,
            kind=self.type,
            audio=self.audio,
            image=self.image,
            duration=self.duration,
            status=status,
            is_private=self.private,
        )


@dataclass(frozen=True, slots=True)
class Written:
    """Where a new entry is."""

    id: str
    path: str


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry in a list."""

    id: str
    path: str
    title: str
    created_at: Moment
    snippet: str
    brain_links: list[str]


@dataclass(frozen=True, slots=True)
class WholeEntry:
    """One entry with its text."""

    id: str
    path: str
    title: str
    created_at: Moment
    content: str
    metadata: dict[str, object]
    brain_links: list[str]


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Some entries, the newest first; `count` is how many there are in all."""

    entries: list[EntryRow | WholeEntry]
    count: int
    offset: int


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day, YYYY-MM-DD, and how many entries it has."""

    date: str
    entries: int


@dataclass(frozen=True, slots=True)
class DayPage:
    """The days that have entries."""

    days: list[DayRow]


@dataclass(frozen=True, slots=True)
class Created:
    """What was made, and what Brain suggests to link."""

    id: str
    path: str
    created_at: Moment
    brain_suggestions: list[object]


@dataclass(frozen=True, slots=True)
class LoopPage:
    """Open tasks and questions, the oldest first."""

    loops: list[OpenLoop]


def moment(at: dt.datetime) -> Moment:
    return at.isoformat().replace("+00:00", "Z")


def row_of(one: Dated, links: list[str]) -> EntryRow:
    snippet = " ".join(one.entry.body.split())[:_SNIPPET]
    return EntryRow(one.id, one.path, one.entry.title, moment(one.at), snippet, links)


def whole_of(dated_entry: Dated, links: list[str]) -> WholeEntry:
    entry = dated_entry.entry
    fields: dict[str, object] = {
        "type": entry.kind,
        "audio": entry.audio,
        "image": entry.image,
        "duration": entry.duration,
        "status": entry.status,
        "link": entry.link,
        "private": True if dated_entry.visible is None else None,
    }
    return WholeEntry(
        id=dated_entry.id,
        path=dated_entry.path,
        title=entry.title,
        created_at=moment(dated_entry.at),
        content=entry.body,
        metadata={name: value for name, value in fields.items() if value is not None},
        brain_links=links,
    )


_NO_TIME = " " * 5


def listed_entries(found: Sequence[Dated], *, with_days: bool = False) -> str:
    """`11:33  Sowed the beans.` for each entry, with its other lines below it."""
    return "\n".join(line for one in found for line in _entry_lines(one, with_days=with_days))


def _entry_lines(dated_entry: Dated, *, with_days: bool) -> Iterator[str]:
    entry = dated_entry.entry
    clock = f"{dated_entry.at:%H:%M}" if entry.at or entry.created else _NO_TIME
    start = f"{dated_entry.day} {clock}  " if with_days else f"{clock}  "
    title = "" if entry.title in {entry.created, clock} else entry.title
    lines = [*filter(None, [title]), *entry.body.split("\n")]
    for number, line in enumerate(lines):
        yield f"{start if number == 0 else ' ' * len(start)}{line}".rstrip()
