"""Files of one entry each: `Daily/entries/*.md`, fields as frontmatter, the text below. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time

from .entry import (
    KEY,
    MARK,
    Entry,
    bare,
    first_link,
    front_end,
    front_values,
    is_id,
    leading_marks,
    line_end,
    one_line,
    scalar,
    short_id,
    split,
)

_NAMED = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)"
    r"(?:[-T_ ](?P<hour>\d\d)[-:h]?(?P<minute>\d\d)(?:[-:](?P<second>\d\d))?)?.*"
)


def parse(text: str, name: str) -> Entry:
    lines = split(text)
    values = front_values(lines)

    def said(key: str) -> str:
        value = values.get(key, "")
        return value if isinstance(value, str) else ""

    def listed(key: str) -> tuple[str, ...]:
        value = values.get(key, ())
        return (value,) if isinstance(value, str) else value

    entry_id = said("entry_id") or said("para_id")
    at = _time(said("created_at")) or _time(said("date")) or _time_in(name)
    body = "".join(lines[front_end(lines) :]).lstrip(MARK).strip("\r\n").rstrip()
    audio, image = said("audio") or None, said("image") or None
    duration = said("duration")
    clock = f"{at:%H:%M}" if at else ""
    guess = "voice" if audio else "photo" if image else "linked" if first_link(body) else "text"
    return Entry(
        key=short_id(entry_id) if entry_id else f"plain_{name}",
        module="daily" if is_id(entry_id) else None,
        title=said("title") or (clock if entry_id and clock else name),
        body=body,
        kind=said("type") or guess,
        created=clock,
        at=at,
        audio=audio,
        image=image,
        duration=int(duration) if duration.isascii() and duration.isdigit() else None,
        status=said("status") or None,
        mentions=tuple(dict.fromkeys((*listed("mentions"), *listed("brain_links")))),
        lines=(0, len(lines)),
    )


def compose(entry: Entry, at: datetime) -> str:
    fields = "".join(f"{key}: {value}\n" for key, value in _fields(entry, at))
    return f"---\n{fields}---\n\n{entry.body.strip()}\n"


def file_name(entry: Entry, at: datetime) -> str:
    return f"{at:%Y-%m-%d-%H-%M-%S}-{entry.key[:6]}.md"


def replace_body(text: str, body: str) -> str:
    lines = split(text)
    front = front_end(lines)
    old, ending = "".join(lines[front:]), line_end(text)
    mark = "" if front else leading_marks(old)
    rest = old.removeprefix(mark)
    before = rest[: len(rest) - len(rest.lstrip("\r\n"))] or (ending if front else "")
    after = rest[len(rest.rstrip()) :] if rest.strip() else ""
    new = body.replace("\r\n", "\n").strip("\n").rstrip().replace("\n", ending)
    return "".join(lines[:front]) + mark + before + new + (after or ending)


def replace_title(text: str, title: str) -> str:
    return set_key(text, "title", one_line(title))


def set_key(text: str, key: str, value: str) -> str:
    lines, ending = list(split(text)), line_end(text)
    front = front_end(lines)
    written = f"{key}: {scalar(value)}"
    if not front:
        mark = leading_marks(text)
        return f"{mark}---{ending}{written}{ending}---{ending}{text.removeprefix(mark)}"
    for number, line in enumerate(lines[1 : front - 1], 1):
        match = KEY.fullmatch(bare(line))
        if match and not match["indent"] and match["key"].strip("\"'") == key:
            lines[number] = line.replace(bare(line), written)
            return "".join(lines)
    return "".join([*lines[: front - 1], written + ending, *lines[front - 1 :]])


def _fields(entry: Entry, at: datetime) -> Iterator[tuple[str, str]]:
    yield "entry_id", str(entry.para_id)
    yield "created_at", at.isoformat()
    if entry.title and entry.title != entry.created:
        yield "title", scalar(one_line(entry.title))
    if entry.kind != "text":
        yield "type", entry.kind
    for key, value in (("audio", entry.audio), ("image", entry.image), ("status", entry.status)):
        if value is not None:
            yield key, scalar(value)
    if entry.is_private:
        yield "private", "true"
    if entry.duration is not None:
        yield "duration", str(entry.duration)


def _time(value: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(value)
        return at if at.tzinfo else at.astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _time_in(name: str) -> datetime | None:
    match = _NAMED.fullmatch(name)
    if match is None:
        return None
    try:
        hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
        clock = time(hour, minute, second)
        return datetime.combine(date.fromisoformat(match["day"]), clock).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
