"""Digest: what can be told of notes without a model, in lines that cannot break the note they are put into.

Pure: the same texts give the same bytes. What comes from another note is data, so its marks are taken off or escaped.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from posixpath import basename, dirname, relpath
from urllib.parse import quote

from parachuted.agents.job import ChangedNote
from parachuted.vault import CONTEXT_NAMES, Note, parse_note

SECTION = "Watching"
KEPT = "<!-- kept by parachuted (offline, no model): edits above are overwritten -->"
MOST_NOTES = 200

_FOCUS = "Current Focus"
_FOCUS_LINES = 3
_LINE_CHARS = 200
_LOOKED_AT_CHARS = 2000
_HISTORY_LINES = 10
_UNITS = 8
_HARMLESS_IN_URL = "-_.~/"
_JOINERS = "\u200c\u200d"

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)|%%.*?(?:%%|\Z)", re.DOTALL)
_COMMENT_MARK = re.compile(r"<!--+|--+>|%%")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_WIKI_LINK = re.compile(r"!?\[\[([^\[\]|]*)(?:\|([^\[\]]*))?\]\]")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_LINE_MARKS = re.compile(r"(?:\s|>|#{1,6}(?=\s|$)|[-*+](?=\s|$)|\d{1,9}[.)](?=\s|$)|\[[ xX]\](?=\s|$)|\[![^\]]*\][-+]?)+")
_LONG_RUN = re.compile(r"`{3,}|~{3,}")
_SPECIAL = re.compile(r"[\\\[\]<]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """What is told of one watched note."""

    path: str
    title: str
    description: str
    focus: tuple[str, ...]


def extract_note(path: str, text: str) -> Extract:
    """Take title, description and focus from a note's text; a note without a title goes by the name of its place."""
    note = parse_note(text.encode("utf-8", "surrogateescape"))
    focus = (plain(line) for line in _focus_lines(note))
    return Extract(
        path=path,
        title=plain(note.title or "") or name_of(path),
        description=plain(_find_description(note)),
        focus=tuple(line for line, _ in zip((line for line in focus if line), range(_FOCUS_LINES), strict=False)),
    )


def name_of(path: str) -> str:
    """The name of a note's place: its folder for a context file, else its own."""
    name = basename(path)
    stem = name.rpartition(".")[0] or name
    place = basename(dirname(path)) or "the vault" if name in CONTEXT_NAMES else stem
    return plain(place) or "a note"


def write_digest(watcher: str, extracts: Sequence[Extract]) -> str:
    """Write the managed section's text: a bullet a note, its focus below it."""
    lines = []
    for extract in sorted(extracts, key=lambda extract: extract.path)[:MOST_NOTES]:
        tail = f" — {extract.description}" if extract.description else ""
        lines.append(f"- {_link(watcher, extract.path, extract.title)}{tail}")
        lines += [f"  - {line}" for line in extract.focus]
    if len(extracts) > MOST_NOTES:
        lines.append(f"- and {len(extracts) - MOST_NOTES} more")
    return "\n".join([*(lines or ["- nothing yet"]), KEPT])


def write_history(watcher: str, changes: Sequence[ChangedNote], titles: dict[str, str], at: datetime) -> str:
    """Write a line for each change: when, where, what."""
    lines = [
        f"- {at:%Y-%m-%d}: {_where(watcher, change, titles.get(change.path) or name_of(change.path))}: {_what(change)}"
        for change in changes[:_HISTORY_LINES]
    ]
    return "\n".join([*lines, *([f"- and {len(changes) - _HISTORY_LINES} more"] if len(changes) > _HISTORY_LINES else [])])


def with_what_stands_below(note: Note, digest: str) -> str:
    """The digest and, after it, what a person wrote below our line: text added at the end of a file lands there."""
    below = _present(note).partition(KEPT)[2].strip("\r\n")
    return f"{digest}\n\n{below}" if below.strip() else digest


def is_same(note: Note, content: str) -> bool:
    """Whether the managed section already says this."""
    return _present(note) == content


def is_foreign(note: Note) -> bool:
    """Whether a person has a section of that name, which is then left alone."""
    present = _present(note)
    return bool(present) and KEPT not in present


def plain(text: str) -> str:
    """One line of at most 200 characters, without marks at its start, and with what could begin a link, a tag or a comment escaped."""
    line = " ".join("".join(map(_tame, unicodedata.normalize("NFC", text[:_LOOKED_AT_CHARS]))).split())
    while (less := _strip(line)) != line:  # what stood around a mark may be another
        line = less
    if not any(map(str.isalnum, line)):
        return ""
    cut = line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1].rstrip() + "…"
    return _SPECIAL.sub(r"\\\g<0>", cut)


def _strip(line: str) -> str:
    """Take off links, comment marks, fences, the marks at the start, and the ticks that have no other half."""
    line = _WIKI_LINK.sub(lambda link: link[2] or link[1], line)
    line = _LINK.sub(r"\1", line)
    line = _LONG_RUN.sub("", _COMMENT_MARK.sub("", line))
    marks = _LINE_MARKS.match(line)
    line = " ".join(line[marks.end() if marks else 0 :].split())
    return line.replace("`", "'") if line.count("`") % 2 else line


def _tame(char: str) -> str:
    category = unicodedata.category(char)
    if category in ("Cc", "Zl", "Zp"):
        return " "
    return "" if category in ("Cf", "Cs") and char not in _JOINERS else char


def _focus_lines(note: Note) -> Iterator[str]:
    section = note.section(_FOCUS)
    return _visible_lines(note.text(section.body)) if section is not None else iter(())


def _find_description(note: Note) -> str:
    """Find the first line of the first quote that stands above the second-level headings."""
    stop = next((section.start for section in note.sections if section.level > 1), note.body.stop)
    head = note.data[note.body.start : stop].decode("utf-8", "replace")
    return next((line for line in _visible_lines(head) if line.lstrip().startswith(">") and plain(line)), "")


def _visible_lines(text: str) -> Iterator[str]:
    """Yield the lines that are neither in a comment nor in a code fence."""
    fence = ""
    for line in _COMMENT.sub("", text).splitlines():
        mark = _FENCE.match(line)
        if fence:
            is_end = mark is not None and mark[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if is_end else fence
        elif mark is not None:
            fence = mark[1]
        else:
            yield line


def _link(watcher: str, path: str, title: str) -> str:
    target = relpath(path, dirname(watcher) or ".")
    return f"[{title}]({''.join(map(_quote, target))})"


def _quote(char: str) -> str:
    return char if char.isalnum() or char in _HARMLESS_IN_URL else quote(char.encode("utf-8", "surrogateescape"))


def _where(watcher: str, change: ChangedNote, title: str) -> str:
    return title if change.kind == "deleted" else _link(watcher, change.path, title)


def _what(change: ChangedNote) -> str:
    if change.kind != "modified":
        return change.kind
    units = [unit for unit in map(plain, change.units) if unit]
    more = f" and {len(units) - _UNITS} more" if len(units) > _UNITS else ""
    return f"{', '.join(units[:_UNITS])}{more} changed" if units else "changed"


def _present(note: Note) -> str:
    section = note.section(SECTION)
    return "\n".join(note.text(section.body).strip().splitlines()) if section is not None else ""
