"""Extract: title, description, focus and news of a note, found without a model. Pure.

Its lines are safe to write into another note: no markup begins in them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
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


def link(watcher: str, path: str, title: str, style: LinkStyle | None) -> str:
    """`title` is plain. A name that a wikilink cannot hold has a markdown link."""
    target = path.removesuffix(".md")
    if style == "wiki" and not _NOT_IN_WIKI.search(target):
        label = " ".join(_IN_TITLE.sub(" ", title.replace("\\", "")).split())
        return f"[[{target}]]" if label in {"", target} else f"[[{target}|{label}]]"
    return f"[{title}]({''.join(map(_quote, relpath(path, dirname(watcher) or '.')))})"


def _strip(line: str) -> str:
    """Links, comment marks, fences, marks at the start, and ticks that have no other half."""
    line = _WIKI_LINK.sub(lambda match: match[2] or match[1], line)
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

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)|%%.*?(?:%%|\Z)", re.DOTALL)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_QUOTE = re.compile(r" {0,3}>")
_CALLOUT = re.compile(r" {0,3}>\s*\[![^\]]*\]")
_NO_PARAGRAPH = re.compile(
    r"\s*+(?:</?[A-Za-z!]|#{1,6}(?:\s|$)|[-*+]\s|\d{1,9}[.)]\s|\||[\w "
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
    stop = next((each.start for each in note.sections if each.level > 1), note.body.stop)
    head = list(visible_lines(_text(note, note.body.start, stop)))
    quoted = next(filter(None, map(plain, filter(_QUOTE.match, head))), "")
    return quoted or _paragraph(head)


def visible_lines(text: str) -> Iterator[str]:
    """The lines that are read: none in a comment, a code fence or a callout."""
    fence, is_callout = "", False
    for line in _COMMENT.sub("", text).splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        is_callout = _CALLOUT.match(line) is not None or (is_callout and bool(_QUOTE.match(line)))
        if mark:
            fence = mark[1]
        elif not is_callout:
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
_SHORT = 100
_KEPT_BY_PROGRAMS = {
    *("updated", "modified", "last modified", "last_modified", "date modified", "date_modified"),
    *("updated_at", "modified_at", "mtime", "para_id", "entry_id"),
}
_BOX = re.compile(r"[\s>]*(?:[-*+]|\d{1,9}[.)])\s+(\[[^\[\]\\<]\])\s")
_BOX_CHARS = len("[x] ")
_LABELS = {OPENING: "", FRONTMATTER: "frontmatter"}


def find_news(
    before: bytes, after: bytes, units: Collection[str], title: str | None
) -> tuple[str, ...]:
    """The present content of the changed `units` (headings and keys), as items of a list. Those
    that begin with spaces belong to the one above; what programs keep is named only where nothing
    else changed.
    """
    old, new = unit_texts(parse_note(before)), unit_texts(parse_note(after))
    if old is None or new is None or WHOLE in units:
        return ()
    shown = [unit for unit in units if not _is_kept_by_programs(unit, old, new)] or [*units]
    news = []
    for unit in shown[:_MOST_UNITS]:
        if unit.startswith("@"):
            key = plain(unit[1:]) or "a key"
            news.append(f"{key}: {_key_news(old.get(unit), new.get(unit))}")
        else:
            news += _section_news(unit, old.get(unit), new.get(unit), title)
    more = len(shown) - _MOST_UNITS
    return (*news, f"and {more} more parts") if more > 0 else tuple(news)


def _is_kept_by_programs(unit: str, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    if unit[1:].casefold() in _KEPT_BY_PROGRAMS:
        return True
    return all(holds_ids(unit, texts[unit]) for texts in (old, new) if unit in texts)


def _section_news(unit: str, old: str | None, new: str | None, title: str | None) -> list[str]:
    heading = PARA_ID.sub("", unit.removeprefix(f"{title} > ").replace(" > ", " / "))
    label = "" if unit == title else _LABELS.get(unit, plain(heading))
    was, now = Counter(_lines(old or "")), Counter(_lines(new or ""))
    added, gone = [*(now - was).elements()], [*(was - now).elements()]
    items = [*map(_shown, added), *(f"gone: {_shown(line)}" for line in gone)]
    if new is None:
        items = ["gone"]
    elif len(added) == len(gone) == 1 and len(gone[0]) <= _SHORT:
        items = [f"{_shown(added[0])} (was: {_shown(gone[0])})"]
    items = items or ["new" if old is None else "changed"]
    if (more := len(items) - _MOST_ITEMS) > 0:
        items[_MOST_ITEMS:] = [f"and {more} more"]
    if len(items) == 1:
        return [f"{label}: {items[0]}" if label else items[0]]
    return [label, *(f"  - {item}" for item in items)] if label else items


def _key_news(old: str | None, new: str | None) -> str:
    was, now = (None if text is None else json.loads(text) for text in (old, new))
    before = f" (was {_value(was)})" if isinstance(was, str | list) and was else ""
    return f"{_value(now) if new is not None else 'removed'}{before}"


def _value(value: object) -> str:
    texts = value if isinstance(value, list) else [value]
    words = ", ".join(str(text) for text in texts if isinstance(text, str))
    return plain(words) or ("empty" if value in ("", [], None) else "changed")


def _lines(text: str) -> Iterator[str]:
    """Without marks, but for the box of a task."""
    for line in islice(visible_lines(text), _MOST_LINES):
        if (words := bare(line)) and not line.lstrip().startswith(GENERATED):
            box = _BOX.match(line)
            yield f"{box[1]} {words}" if box else words


def _shown(line: str) -> str:
    """A bare line begins with no bracket that is not a task's."""
    start = _BOX_CHARS if line.startswith("[") and line[2:_BOX_CHARS] == "] " else 0
    return line[:start] + escape(line[start:])
