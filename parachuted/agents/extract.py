"""Extract: title, description, focus and news of a note, found without a model. Pure.

Its lines are safe to write into another note: no markup begins in them.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from posixpath import basename, dirname, relpath
from typing import Literal, TypeAlias
from urllib.parse import quote

from parachuted.vault import CONTEXT_NAMES, ParsedNote
from parachuted.vault.note import (
    FRONTMATTER,
    OPENING,
    PARA_ID,
    WHOLE,
    holds_ids,
    parse_note,
    unit_texts,
)

LinkStyle: TypeAlias = Literal["wiki", "markdown"]

_LINE_CHARS = 200
_LOOKED_AT_CHARS = 2000
_HARMLESS_IN_URL = "-_.~/"
_JOINERS = "\u200c\u200d"
_NOT_IN_WIKI = re.compile(r"[\[\]#|^\\]|%%|<!--|[^\x20-\U0010ffff]|[\ud800-\udfff]")
_COMMENT_MARK = re.compile(r"<!--+|--+>|%%")
_WIKI_LINK = re.compile(r"!?\[\[([^\[\]|]*)(?:\|([^\[\]]*))?\]\]")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_LINE_MARKS = re.compile(
    r"(?:\s|>|#{1,6}(?=\s|$)|[-*+](?=\s|$)|\d{1,9}[.)](?=\s|$)|\[[^\[\]]\](?=\s|$)|\[![^\]]*\][-+]?)+"
)
_LONG_RUN = re.compile(r"`{3,}|~{3,}")
_BLOCK_ID = re.compile(r"\s\^[A-Za-z0-9-]+\Z")
_SPECIAL = re.compile(r"[\\\[\]<]|(?<![^\s(,])#(?=[^\s#])")
_IN_TITLE = re.compile(r"[\[\]|]")


def plain(text: str) -> str:
    """One line of at most 200 characters; what could begin a link, tag or comment is escaped."""
    return escape(bare(text))


def bare(text: str) -> str:
    """One line without marks, not yet cut and escaped; empty where it holds no word."""
    line = " ".join(
        "".join(map(_tame, unicodedata.normalize("NFC", text[:_LOOKED_AT_CHARS]))).split()
    )
    while (less := _strip(line)) != line:  # what stood around a mark may be another
        line = less
    return line if any(map(str.isalnum, line)) else ""


def escape(line: str) -> str:
    cut = line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1].rstrip() + "…"
    return _SPECIAL.sub(r"\\\g<0>", cut)


def name_of(path: str) -> str:
    """The name of a note's place: its folder for a context file, else its own."""
    name = basename(path)
    stem = name.rpartition(".")[0] or name
    place = basename(dirname(path)) or "the vault" if name in CONTEXT_NAMES else stem
    return plain(place) or "a note"


def link(watcher: str, path: str, title: str, style: LinkStyle) -> str:
    """`title` is plain. A name that a wikilink cannot hold has a markdown link."""
    target = path.removesuffix(".md")
    if style == "wiki" and not _NOT_IN_WIKI.search(target):
        label = " ".join(_IN_TITLE.sub(" ", title.replace("\\", "")).split())
        return f"[[{target}]]" if label in {"", target} else f"[[{target}|{label}]]"
    return f"[{title}]({''.join(map(_quote, relpath(path, dirname(watcher) or '.')))})"


def link_style(texts: Iterable[str]) -> LinkStyle:
    wiki = markdown = 0
    for text in texts:
        wiki += text.count("[[")
        markdown += text.count("](")
    return "wiki" if wiki > markdown else "markdown"


def _strip(line: str) -> str:
    """Links, comment marks, fences, marks at the start, and ticks that have no other half."""
    line = _WIKI_LINK.sub(lambda found: found[2] or found[1], line)
    line = _LINK.sub(r"\1", line)
    line = _BLOCK_ID.sub("", _LONG_RUN.sub("", _COMMENT_MARK.sub("", line)))
    marks = _LINE_MARKS.match(line)
    line = " ".join(line[marks.end() if marks else 0 :].split())
    return line.replace("`", "'") if line.count("`") % 2 else line


def _tame(char: str) -> str:
    category = unicodedata.category(char)
    if category in ("Cc", "Zl", "Zp"):
        return " "
    return "" if category in ("Cf", "Cs") and char not in _JOINERS else char


def _quote(char: str) -> str:
    is_harmless = char.isalnum() or char in _HARMLESS_IN_URL
    return char if is_harmless else quote(char.encode("utf-8", "surrogateescape"))


_FOCUS = "Current Focus"
_FOCUS_LINES = 3
_DESCRIPTION_CHARS = 16 << 10
_PARAGRAPH_CHARS = 2000
_DESCRIPTION_KEYS = ("description", "summary")
_LOGS = {"history", "watching"}

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)|%%.*?(?:%%|\Z)", re.DOTALL)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_QUOTE = re.compile(r" {0,3}>")
_CALLOUT = re.compile(r" {0,3}>\s*\[![^\]]*\]")
_HTML = re.compile(r" {0,3}</?[A-Za-z!]")
_NO_PARAGRAPH = re.compile(
    r"\s*+(?:#{1,6}(?:\s|$)|[-*+]\s|\d{1,9}[.)]\s|\||[\w "
    r"-]++::|(?:!?\[\[[^\]]*+\]\]|!?\[[^\]]*+\]\([^)]*+\)|#\S++|[\s<>|·•«»←→])++$)"
)

_TAGS_AT_END = re.compile(r"(?:\s+#[^\s#]+)++\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    path: str
    title: str
    description: str
    focus: tuple[str, ...]


def extract_note(path: str, text: str) -> Extract:
    note = parse_note(text.encode("utf-8", "surrogateescape"))
    focus = tuple(islice(_focus(note), _FOCUS_LINES))
    return Extract(path=path, title=title_of(path, note), description=describe(note), focus=focus)


def title_of(path: str, note: ParsedNote) -> str:
    value = note.values.get("title")
    own = plain(value) if isinstance(value, str) else ""
    return own or plain(note.title or "") or name_of(path)


def describe(note: ParsedNote) -> str:
    """Its `description:`, else the first quotation above its sections, else its first paragraph."""
    for key in _DESCRIPTION_KEYS:
        value = note.values.get(key)
        if isinstance(value, str) and (line := plain(value)):
            return line
    sections = [section for section in note.sections if section.level > 1]
    stop = sections[0].start if sections else note.body.stop
    head = list(visible_lines(_text(note, note.body.start, stop)))
    quoted = next(filter(None, map(plain, filter(_QUOTE.match, head))), "")
    if found := quoted or _paragraph(head):
        return found
    first = next((one for one in sections if one.title.strip().casefold() not in _LOGS), None)
    below = _text(note, first.body_start, first.own_stop) if first is not None else ""
    return _paragraph(visible_lines(below))


def visible_lines(text: str) -> Iterator[str]:
    """The lines that are read: none in a comment, a code fence, a callout or a block of HTML."""
    fence, skips = "", ""
    for line in _COMMENT.sub("", text).splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        if (skips == "quote" and not _QUOTE.match(line)) or (skips == "html" and not line.strip()):
            skips = ""
        if not skips:
            skips = "quote" if _CALLOUT.match(line) else "html" if _HTML.match(line) else ""
        if mark and not skips:
            fence = mark[1]
        elif not skips:
            yield line


def _focus(note: ParsedNote) -> Iterator[str]:
    section = note.section(_FOCUS)
    text = note.text(section.body) if section is not None else ""
    return filter(None, map(plain, visible_lines(text)))


def _paragraph(lines: Iterable[str]) -> str:
    found: list[str] = []
    for line in lines:
        if line.strip() and not (_QUOTE.match(line) or _NO_PARAGRAPH.match(line)) and bare(line):
            found.append(line)
        elif found:
            break
    return plain(_TAGS_AT_END.sub("", " ".join(found)[:_PARAGRAPH_CHARS]))


def _text(note: ParsedNote, start: int, stop: int) -> str:
    return note.data[start : min(stop, start + _DESCRIPTION_CHARS)].decode("utf-8", "replace")


GENERATED = "*Generated by parachuted"
"""How the first line of a generated section begins, which is no news to a person."""

_MOST_UNITS = 8
_MOST_ITEMS = 6
_MOST_LINES = 5_000
_MOST_PAIRED = 60
_SHORT = 100
_LIKE = 0.6
_STAMPS = {
    *("updated", "modified", "last modified", "last_modified", "date modified", "date_modified"),
    *("updated_at", "modified_at", "mtime"),
}
_IDS = {"@para_id", "@entry_id"}  # of programs: they say nothing to a person

_BOX = re.compile(r"[\s>]*(?:[-*+]|\d{1,9}[.)])\s+\[([^\[\]\\<])\]\s")
# What the Tasks plugin adds to a line whose box is ticked: a sign and a date.
_DONE_AT = re.compile(r"\s*(?:\u2705|\u274c|\u2795)\s*\d{4}-\d{2}-\d{2}")
_LABELS = {OPENING: "", FRONTMATTER: "frontmatter"}


@dataclass(frozen=True, slots=True)
class _Line:
    """A line as it is compared, and the mark in its box if it is a task."""

    text: str
    box: str | None

    @property
    def shown(self) -> str:
        return f"[{self.box}] {escape(self.text)}" if self.box is not None else escape(self.text)


def find_news(
    before: bytes, after: bytes, units: Collection[str], title: str | None
) -> tuple[str, ...]:
    """The present content of the changed `units` (headings and keys), as items of a list. Those
    that begin with spaces belong to the one above; ids of programs are named only where nothing
    else changed.
    """
    old, new = unit_texts(parse_note(before)), unit_texts(parse_note(after))
    if old is None or new is None or WHOLE in units:
        return ()
    named = [unit for unit in units if unit not in _IDS]
    if units and not named:
        return ("given an id",)
    said = [
        unit
        for unit in named
        if not all(holds_ids(unit, one[unit]) for one in (old, new) if unit in one)
    ]
    shown = [unit for unit in said if unit[1:].casefold() not in _STAMPS] or said or named
    news = []
    for unit in shown[:_MOST_UNITS]:
        news += _news(unit, old.get(unit), new.get(unit), title)
    more = len(shown) - _MOST_UNITS
    return (*news, f"and {more} more parts") if more > 0 else tuple(news)


def _news(unit: str, old: str | None, new: str | None, title: str | None) -> list[str]:
    if unit.startswith("@"):
        return [f"{plain(unit[1:]) or 'a key'}: {_key_news(old, new)}"]
    heading = PARA_ID.sub("", unit.removeprefix(f"{title} > ").replace(" > ", " / "))
    label = "" if unit == title else _LABELS.get(unit, plain(heading))
    items = list(_line_news(_lines(old or ""), _lines(new or "")))
    if new is None:
        items = [f"gone, with {len(items)} lines" if len(items) > 1 else "gone"]
    items = items or ["new" if old is None else "changed"]
    if (more := len(items) - _MOST_ITEMS) > 0:
        items[_MOST_ITEMS:] = [f"and {more} more"]
    if len(items) == 1:
        return [f"{label}: {items[0]}" if label else items[0]]
    return [label, *(f"  - {item}" for item in items)] if label else items


def _key_news(old: str | None, new: str | None) -> str:
    was, now = (None if text is None else json.loads(text) for text in (old, new))
    if isinstance(was, list) and isinstance(now, list):
        added = ", ".join(_value(one) for one in now if one not in was)
        removed = ", ".join(_value(one) for one in was if one not in now)
        parts = [f"added {added}" if added else "", f"removed {removed}" if removed else ""]
        return "; ".join(filter(None, parts)) or "in another order"
    before = f" (was {_value(was)})" if isinstance(was, str | list) and was else ""
    return f"{_value(now) if new is not None else 'removed'}{before}"


def _value(value: object) -> str:
    texts = value if isinstance(value, list) else [value]
    words = ", ".join(str(text) for text in texts if isinstance(text, str))
    return plain(words) or ("empty" if value in ("", [], None) else "changed")


def _lines(text: str) -> list[_Line]:
    found = []
    for line in islice(visible_lines(text), _MOST_LINES):
        if line.lstrip().startswith(GENERATED):
            continue
        box = _BOX.match(line)
        if words := bare(_DONE_AT.sub("", line)):
            found.append(_Line(words, box[1] if box else None))
    return found


def _line_news(old: Sequence[_Line], new: Sequence[_Line]) -> Iterator[str]:
    came, went = _left(new, old), _left(old, new)
    boxes = {line.text: line for line in went if line.box is not None}
    rest = []
    for line in came:
        before = boxes.get(line.text)
        if line.box is not None and before is not None and before in went:
            went.remove(before)
            yield f"{_did(line.box)} {line.shown}"
        else:
            rest.append(line)
    is_one_for_another = len(rest) == len(went) == 1
    for line in rest:
        before = went[0] if is_one_for_another else _like(line, went)
        if before is not None:
            went.remove(before)
        yield _came(line, before)
    for line in went:
        yield f"gone: {line.shown}"


def _left(many: Sequence[_Line], others: Sequence[_Line]) -> list[_Line]:
    known = Counter(others)
    left = []
    for line in many:
        if known[line] > 0:
            known[line] -= 1
        else:
            left.append(line)
    return left


def _did(box: str | None) -> str:
    return {" ": "opened", "x": "closed", "X": "closed"}.get(box or "", "marked")


def _came(line: _Line, before: _Line | None) -> str:
    is_ticked = line.box is not None and (before is None or before.box != line.box)
    start = f"{_did(line.box)} " if is_ticked else ""
    if before is None:
        return f"{start}{line.shown}"
    if len(before.text) > _SHORT and line.text.startswith(before.text):
        return f"{start}… {escape(line.text[len(before.text) :].strip())}"
    was = f" (was: {escape(before.text)})" if len(before.text) <= _SHORT else ""
    return f"{start}{line.shown}{was}"


def _like(line: _Line, went: Sequence[_Line]) -> _Line | None:
    if len(went) > _MOST_PAIRED:
        return None
    for one in went:
        if len(one.text) > _SHORT and line.text.startswith(one.text):
            return one
    heads = [one.text[: _SHORT * 2] for one in went]
    found = difflib.get_close_matches(line.text[: _SHORT * 2], heads, n=1, cutoff=_LIKE)
    return went[heads.index(found[0])] if found else None
