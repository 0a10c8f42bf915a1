"""Journal files: `Daily/journals/YYYY-MM-DD.md`, one note a day, one block an entry.

Pure functions over a note's text. An edit changes only the lines that it means to change; all
other characters of the file stay. The format is that of the existing app: frontmatter with
`entries:`, and blocks that begin with a line `# para:daily:ID TITLE`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from .entry import (
    ID,
    KEY,
    Entry,
    JournalError,
    bare,
    first_link,
    front_end,
    leading_marks,
    line_end,
    one_line,
    plain,
    short_id,
    split,
    zone_of,
)

Field = Literal[
    "type", "audio", "image", "duration", "status", "created", "zone", "lined_background"
]


_HEADING = re.compile(rf"# para:{ID}(?:[ \t](?P<title>.*))?", re.IGNORECASE)
_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}(?=[^`]*$)|~{3,})(?P<rest>.*)")
_DOUBTFUL: Final = 8
_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_WRITABLE = re.compile(r"(?!.*---)[A-Za-z0-9_/][^\x00-\x1f\x7f#\"':]*(?::[^\x00-\x20\x7f#\"':]+)*")


@dataclass(frozen=True, slots=True)
class Journal:
    """Joined, `lines` are the text of the file."""

    lines: tuple[str, ...]
    front: int
    entries: tuple[Entry, ...]

    @property
    def preamble(self) -> str:
        first = self.entries[0].lines[0] if self.entries else len(self.lines)
        return "".join(self.lines[self.front : first]).strip()

    def find(self, key: str) -> Entry:
        wanted = short_id(key)
        for entry in self.entries:
            if entry.key == wanted:
                return entry
        raise JournalError(f"This journal has no entry {key}.")


def new_journal(date: str) -> str:
    return f"---\ndate: {date}\nentries:\n---\n"


def parse(text: str) -> Journal:
    """Every text is a journal: text without a heading is its preamble."""
    lines = split(text)
    front = front_end(lines)
    metadata = dict(_metadata(lines[1 : front - 1])) if front else {}
    starts = list(_headings(lines, front, metadata))
    ends = [*starts[1:], len(lines)][: len(starts)]
    entries = []
    unnamed = 0
    for start, end in zip(starts, ends, strict=True):
        named = _named(bare(lines[start]), metadata)
        if named is None:
            unnamed += 1
            key, module, title = f"plain_{unnamed}", None, bare(lines[start])[2:].strip()
        else:
            key, module = named["id"].lower(), named["module"]
            title = (named["title"] or "").strip()
        body = _body(lines[start + 1 : end])
        entries.append(_entry(key, module, title, body, metadata.get(key), (start, end)))
    return Journal(lines, front, tuple(entries))


def append(text: str, entry: Entry) -> str:
    """JournalError: a field cannot be written, or the key is there."""
    if entry.key in text.lower() and any(one.key == entry.key for one in parse(text).entries):
        raise JournalError(f"This journal has an entry {entry.key} already.")
    lines = split(text)  # no more of a long day is read than has to be
    journal = Journal(lines, front_end(lines), ())
    ending = line_end(text)
    head = _with_metadata(journal, [line + ending for line in _field_lines(entry)], ending)
    if head and not head.endswith("\n"):
        head += ending
    gap = "" if not head or head.endswith((ending * 2, "\n\n")) else ending
    return head + gap + _block(entry, ending)


def replace_body(text: str, key: str, body: str) -> str:
    journal = parse(text)
    start, end = journal.find(key).lines
    ending = line_end(text)
    is_closed = _rule(journal.lines[start + 1 : end]) is not None
    after = end < len(journal.lines)
    new = ending + _written(body, ending)
    new += (ending + "---" + ending) if is_closed else ""
    new += ending if after else ""
    heading = journal.lines[start]
    heading = heading if heading.endswith("\n") else heading + ending
    return "".join([*journal.lines[:start], heading, new, *journal.lines[end:]])


def replace_title(text: str, key: str, title: str) -> str:
    journal = parse(text)
    entry = journal.find(key)
    line = journal.lines[entry.lines[0]]
    text = bare(line)
    named = None if entry.para_id is None else _HEADING.fullmatch(text)
    start = "#" if named is None else text[: named.end("id")]
    heading = f"{start} {one_line(title)}".rstrip() if title or named else "# "
    return _with_line(
        journal,
        entry.lines[0],
        line[: line.index(text)] + heading + line[line.index(text) + len(text) :],
    )


def set_field(text: str, key: str, field: Field, value: str | int) -> str:
    journal = parse(text)
    entry = journal.find(key)
    found = _fields_at(journal, entry.key)
    written = f"    {field}: {_scalar(field, value)}"
    ending = line_end(text)
    if found is None:
        return _with_metadata(journal, [f"  {_yaml_key(entry)}:{ending}", written + ending], ending)
    start, end = found
    for number in range(start + 1, end):
        line = journal.lines[number]
        match = KEY.fullmatch(bare(line))
        if match and match["key"].strip("\"'") == field:
            return _with_line(journal, number, match["indent"] + written.strip() + ending)
    value_of_key = KEY.fullmatch(bare(journal.lines[start]))
    if value_of_key and (value_of_key["value"] or "").split("#")[0].strip():
        raise JournalError(
            f"The metadata of {entry.key} is written on one line, so {field} cannot be added."
        )
    lines = list(journal.lines)
    lines.insert(end, written + ending)
    return "".join(lines)


def remove(text: str, key: str) -> str:
    journal = parse(text)
    entry = journal.find(key)
    start, end = entry.lines
    lines = [*journal.lines[:start], *journal.lines[end:]]
    found = _fields_at(journal, entry.key)
    if found is not None:
        del lines[found[0] : found[1]]
    return "".join(lines)


def _named(line: str, known: Collection[str]) -> re.Match[str] | None:
    """`# para:planning the week` is a title: the frontmatter knows no such id."""
    match = _HEADING.fullmatch(line)
    if match and len(match["id"]) == _DOUBTFUL and match["id"].lower() not in known:
        return None
    return match


def _headings(lines: Sequence[str], front: int, known: Collection[str]) -> Iterator[int]:
    """The lines that begin a block.

    A code fence hides `# `, unless it is never closed, and never an entry that the frontmatter
    names: a forgotten fence must not swallow later entries.
    """
    fence = ""
    unclosed: dict[str, int] = {}
    for number in range(front, len(lines)):
        line = bare(lines[number])
        named = _named(line, known)
        if named and named["id"].lower() in known:
            fence, unclosed = "", {}
            yield number
        elif fence:
            fence = "" if _closes(line, fence) else fence
        elif opened := _FENCE.fullmatch(line):
            mark = opened["mark"]
            if len(mark) < unclosed.get(mark[0], len(mark) + 1):
                if _is_closed(lines, number + 1, mark, known):
                    fence = mark
                else:
                    unclosed[mark[0]] = len(mark)
        elif line.startswith("# "):
            yield number


def _closes(line: str, mark: str) -> bool:
    match = _FENCE.fullmatch(line)
    return bool(match and match["mark"].startswith(mark) and not match["rest"].strip())


def _is_closed(lines: Sequence[str], first: int, mark: str, known: Collection[str]) -> bool:
    for line in lines[first:]:
        text = bare(line)
        named = _named(text, known)
        if named and named["id"].lower() in known:
            return False
        if _closes(text, mark):
            return True
    return False


def _rule(block: Sequence[str]) -> int | None:
    for number in range(len(block) - 1, -1, -1):
        if bare(block[number]).strip():
            return number if bare(block[number]).strip() == "---" else None
    return None


def _body(block: Sequence[str]) -> str:
    end = _rule(block)
    return "".join(block if end is None else block[:end]).strip("\r\n").rstrip()


def _metadata(front: Sequence[str]) -> Iterator[tuple[str, dict[str, str] | str]]:
    for key, start, end in _keyed(front):
        first = KEY.fullmatch(bare(front[start]))
        value = plain(first["value"] or "") if first else ""
        if value and not value.startswith("{"):
            yield key, value
            continue
        fields = {}
        for line in front[start + 1 : end]:
            match = KEY.fullmatch(bare(line))
            if match:
                fields[match["key"].strip("\"'")] = plain(match["value"] or "")
        yield key, fields


def _keyed(front: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    inside = False
    started: tuple[str, int, int] | None = None
    for number, line in enumerate(front):
        text = bare(line)
        match = KEY.fullmatch(text)
        indent = len(text) - len(text.lstrip(" "))
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        if started and indent <= started[2]:
            yield started[0], started[1], number
            started = None
        if indent == 0:
            inside = bool(match and match["key"] in {"entries", "assets"})
        elif inside and match and started is None:
            started = (short_id(match["key"].strip("\"'")), number, indent)
    if started:
        yield started[0], started[1], len(front)


def _entry(
    key: str,
    module: str | None,
    title: str,
    body: str,
    metadata: dict[str, str] | str | None,
    lines: tuple[int, int],
) -> Entry:
    fields = {"audio": metadata} if isinstance(metadata, str) else metadata or {}
    audio, image = fields.get("audio") or None, fields.get("image") or None
    kind = fields.get("type") or ("voice" if metadata else "")
    if not kind:
        kind = "linked" if first_link(body) else "text"
    duration = fields.get("duration", "")
    return Entry(
        key=key,
        module=module.lower() if module else None,
        title=title,
        body=body,
        kind=kind,
        created=fields.get("created", "") or (title if _CLOCK.fullmatch(title) else ""),
        zone=zone_of(fields.get("zone", "")),
        audio=audio,
        image=image,
        duration=int(duration) if duration.isascii() and duration.isdigit() else None,
        status=fields.get("status") or None,
        lines=lines,
    )


def _fields_at(journal: Journal, key: str) -> tuple[int, int] | None:
    if not journal.front:
        return None
    for found, start, end in _keyed(journal.lines[1 : journal.front - 1]):
        if found == key:
            return start + 1, end + 1
    return None


def _with_metadata(journal: Journal, fields: Sequence[str], ending: str) -> str:
    lines = list(journal.lines)
    if not journal.front:
        mark = leading_marks(lines[0] if lines else "")
        front = [f"{mark}---{ending}", f"entries:{ending}", *fields, f"---{ending}", ending]
        return "".join([*front, "".join(lines).removeprefix(mark)])
    for number, line in enumerate(lines[1 : journal.front - 1], 1):
        match = KEY.fullmatch(bare(line))
        if match and not match["indent"] and match["key"] == "entries":
            if plain(match["value"] or ""):
                raise JournalError("`entries:` in the frontmatter has a value on its own line.")
            return "".join([*lines[: number + 1], *fields, *lines[number + 1 :]])
    end = journal.front - 1
    return "".join([*lines[:end], f"entries:{ending}", *fields, *lines[end:]])


def _block(entry: Entry, ending: str) -> str:
    title = f"{entry.title} #private" if entry.is_private else entry.title
    heading = f"# {entry.para_id} {one_line(title)}".rstrip()
    return f"{heading}{ending}{ending}{_written(entry.body, ending)}{ending}---{ending}"


def _written(body: str, ending: str) -> str:
    """The app begins an entry at each line `# `, in code too: such a line gets a space."""
    lines = body.replace("\r\n", "\n").strip("\n").rstrip().split("\n")
    safe = (f" {line}" if line.startswith("# ") else line for line in lines)
    return ending.join(safe) + ending


def _field_lines(entry: Entry) -> Iterator[str]:
    yield f"  {_yaml_key(entry)}:"
    values: dict[Field, str | int | None] = {
        "type": entry.kind,
        "audio": entry.audio,
        "image": entry.image,
        "duration": entry.duration,
        "status": entry.status,
        "created": entry.created or None,
        "zone": None if entry.zone is None else str(entry.zone),
    }
    for name, value in values.items():
        if value is not None:
            yield f"    {name}: {_scalar(name, value)}"


def _yaml_key(entry: Entry) -> str:
    return f"{entry.module or 'daily'}:{entry.key}"


def _scalar(field: Field, value: str | int) -> str:
    """A value on one line that the app, which reads line by line, takes as it is meant."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not _WRITABLE.fullmatch(value):
        raise JournalError(f"{field} cannot hold {value!r}.")
    return value


def _with_line(journal: Journal, number: int, line: str) -> str:
    return "".join([*journal.lines[:number], line, *journal.lines[number + 1 :]])
