"""Imports: what another journal holds, as entries with ids of their own. Pure.

Day One's JSON, and notes called by their date (Obsidian's daily notes, plain markdown). The id of
an entry follows from what it is imported from, so that a second import finds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from parachuted.modules import Finding, read_each

from .entry import JournalError, front_end, front_values, key_of_text, split

_DATE = re.compile(r"(?P<day>\d{4}-?\d\d-?\d\d)(?!\d)[ _.-]*(?P<rest>[^/]*)\.(?:md|markdown|txt)")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!>~|])")
_MOMENT = re.compile(r"!\[[^\]]*\]\(dayone-moment:[^)]*\)")
_HEADING = re.compile(r"\s*# +(?P<title>[^\n]+)\n*")
_OFFSET = re.compile(r"(?:GMT|UTC)?(?P<sign>[+-])(?P<hours>[01]?\d|2[0-3]):?(?P<minutes>[0-5]\d)?")
_DEEPEST = 6
_MEDIA = ("photos", "audios", "videos", "pdfAttachments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    key: str
    source: str
    at: datetime
    title: str
    body: str
    left_out: int = 0
    warning: str = ""


def read_source(path: str, data: bytes, left_out: list[Finding]) -> list[Imported]:
    """`left_out` gets what is not an entry. ValueError: it is of no known kind."""
    text = data.decode("utf-8-sig")
    if path.endswith(".json"):
        return _day_one(path, text, left_out)
    if found := _DATE.fullmatch(path.rpartition("/")[2]):
        return [_dated_note(path, text, found["day"], found["rest"])]
    raise JournalError("it is neither Day One's JSON nor a note called by its date")


def is_known(path: str) -> bool:
    return path.endswith(".json") or _DATE.fullmatch(path.rpartition("/")[2]) is not None


def _day_one(path: str, text: str, left_out: list[Finding]) -> list[Imported]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise JournalError("it is not valid JSON") from error
    found = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise JournalError("it has no list of entries, as an export of Day One has")
    places = ((f"{path}, entry {number}", one) for number, one in enumerate(found, 1))
    entries, more = read_each(
        ((place, (place, one)) for place, one in places), lambda read: _day_one_entry(path, *read)
    )
    left_out += more
    return entries


def _day_one_entry(path: str, place: str, entry: object) -> Imported:
    # half characters, which no file and no answer can hold, become question marks
    entry = json.loads(json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace"))
    if not isinstance(entry, dict):
        raise JournalError("it is no entry")
    at, text = _moment(entry), entry.get("text")
    media = sum(len(files) for kind in _MEDIA if isinstance(files := entry.get(kind), list))
    said = text if isinstance(text, str) else ""
    words = _ESCAPED.sub(r"\1", _MOMENT.sub("", said)).strip() or _rich_text(entry).strip()
    if not words and text and not isinstance(text, str):
        raise JournalError("its text is none")
    if not words:
        files = "1 picture or recording" if media == 1 else f"{media} pictures and recordings"
        raise JournalError(f"it has no text, only {files}" if media else "it is empty")
    title, body = _titled(words)
    uuid, zone = entry.get("uuid"), entry.get("timeZone")
    is_zone = not zone or _zone(zone) is not None
    source = uuid if isinstance(uuid, str) and uuid else f"{at.isoformat()}:{words}"
    return Imported(
        key=key_of_text(f"dayone:{source}"),
        source=path,
        at=at,
        title=title,
        body=body,
        left_out=media,
        warning=""
        if is_zone
        else f"{place}: its time zone {str(zone)[:40]!r} is not known; this machine's is taken",
    )


def _rich_text(entry: Mapping[str, object]) -> str:
    """The words of an entry without plain text: JSON within a text."""
    rich = entry.get("richText")
    try:
        document = json.loads(rich) if isinstance(rich, str) and rich else rich
    except ValueError:
        raise JournalError("its richText is not valid JSON") from None  # no line of the file
    pieces = document.get("contents") if isinstance(document, dict) else None
    said = ""
    for piece in pieces if isinstance(pieces, list) else ():
        if not isinstance(piece, dict) or not isinstance(text := piece.get("text"), str):
            continue
        attributes = piece.get("attributes")
        line = attributes.get("line") if isinstance(attributes, dict) else None
        begins = not said or said.endswith("\n")
        said += (
            _line_mark(line) if begins and text.strip() and isinstance(line, dict) else ""
        ) + text
    return said


def _line_mark(line: Mapping[str, object]) -> str:
    header, style = line.get("header"), line.get("listStyle")
    if isinstance(header, int) and 1 <= header <= _DEEPEST:
        return f"{'#' * header} "
    return "- " if isinstance(style, str) and style else ""


def _dated_note(path: str, text: str, day: str, rest: str) -> Imported:
    try:
        found = date.fromisoformat(day)
    except ValueError as error:
        raise JournalError("its name is not a date") from error
    lines = split(text)
    body = "".join(lines[front_end(lines) :]).strip()
    if not body:
        raise JournalError("it is empty")
    values = front_values(lines)
    named = values.get("title")
    title, body = _titled(body)
    title = title or (named if isinstance(named, str) else "") or rest.strip()
    at = datetime.combine(found, time()).astimezone()
    return Imported(
        key=key_of_text(f"note:{day}:{rest}:{body}"), source=path, at=at, title=title, body=body
    )


def _titled(text: str) -> tuple[str, str]:
    found = _HEADING.match(text)
    if found is None or not text[found.end() :].strip():
        return "", text
    return found["title"].strip(), text[found.end() :].strip()


def _moment(entry: Mapping[str, object]) -> datetime:
    """In its own time zone. JournalError: it does not say, or no calendar has that day."""
    said = entry.get("creationDate")
    try:
        at = datetime.fromisoformat(said if isinstance(said, str) else "")
        at.astimezone()
        return at.astimezone(_zone(entry.get("timeZone")))
    except (ValueError, OverflowError, OSError) as error:
        raise JournalError(
            f"{str(said)[:40]!r} is no date" if said else "it has no date"
        ) from error


def _zone(name: object) -> tzinfo | None:
    if not isinstance(name, str) or not name:
        return None
    if offset := _OFFSET.fullmatch(name):
        hours = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0))
        return timezone(-hours if offset["sign"] == "-" else hours)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
