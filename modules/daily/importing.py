"""Imports: what another journal holds, as entries with ids of their own. Pure.

Day One's JSON, and notes called by their date (Obsidian's daily notes, plain markdown). The id of
an entry follows from what it is imported from, so that a second import finds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from zoneinfo import ZoneInfo

from .entry import JournalError, key_of_text
from .lines import front_end, front_values, split

_DATE = re.compile(r"(?P<day>\d{4}-?\d\d-?\d\d)(?!\d)[ _.-]*(?P<rest>[^/]*)\.(?:md|markdown|txt)")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!>~|])")
_MOMENT = re.compile(r"!\[[^\]]*\]\(dayone-moment:[^)]*\)")
_HEADING = re.compile(r"\s*# +(?P<title>[^\n]+)\n*")
_MEDIA = ("photos", "audios", "videos", "pdfAttachments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """An entry of another journal; `left_out` is how many of its files stay where they are."""

    key: str
    source: str
    at: datetime
    title: str
    body: str
    left_out: int = 0


def read_source(path: str, data: bytes) -> list[Imported]:
    """The entries in a file. Raises JournalError for one that is none of a known kind."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JournalError(f"{path} is not a text.") from error
    if path.endswith(".json"):
        return list(_day_one(path, text))
    if found := _DATE.fullmatch(path.rpartition("/")[2]):
        return list(_dated_note(path, text, found["day"], found["rest"]))
    raise JournalError(f"{path} is neither Day One's JSON nor a note called by its date.")


def is_known(path: str) -> bool:
    """Whether a file of that name may hold entries."""
    return path.endswith(".json") or _DATE.fullmatch(path.rpartition("/")[2]) is not None


def _day_one(path: str, text: str) -> Iterator[Imported]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JournalError(f"{path} is not valid JSON.") from error
    found = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise JournalError(f"{path} has no list of entries, as an export of Day One has.")
    for number, one in enumerate(found, 1):
        if not isinstance(one, dict) or (at := _moment(one)) is None:
            raise JournalError(f"Entry {number} of {path} has no date.")
        words = _ESCAPED.sub(r"\1", _MOMENT.sub("", str(one.get("text") or ""))).strip()
        media = sum(len(files) for kind in _MEDIA if isinstance(files := one.get(kind), list))
        if not words:
            continue
        title, body = _titled(words)
        source = f"dayone:{one.get('uuid') or f'{at.isoformat()}:{words}'}"
        yield Imported(
            key=key_of_text(source), source=path, at=at, title=title, body=body, left_out=media
        )


def _dated_note(path: str, text: str, day: str, rest: str) -> Iterator[Imported]:
    try:
        found = date.fromisoformat(day)
    except ValueError as error:
        raise JournalError(f"{path} has a name that is not a date.") from error
    lines = split(text)
    body = "".join(lines[front_end(lines) :]).strip()
    if not body:
        return
    values = front_values(lines)
    named = values.get("title")
    title, body = _titled(body)
    title = title or (named if isinstance(named, str) else "") or rest.strip()
    at = datetime.combine(found, time()).astimezone()
    yield Imported(
        key=key_of_text(f"note:{day}:{rest}:{body}"), source=path, at=at, title=title, body=body
    )


def _titled(text: str) -> tuple[str, str]:
    """The heading that the text begins with, if it does, and the rest."""
    found = _HEADING.match(text)
    if found is None or not text[found.end() :].strip():
        return "", text
    return found["title"].strip(), text[found.end() :].strip()


def _moment(entry: Mapping[str, object]) -> datetime | None:
    """When it was made, in its own time zone."""
    try:
        at = datetime.fromisoformat(str(entry.get("creationDate")))
        zone = entry.get("timeZone")
        return at.astimezone(ZoneInfo(zone)) if isinstance(zone, str) and zone else at.astimezone()
    except (ValueError, OverflowError, OSError):
        return None
