"""Title, description and focus of a note, found without a model, as lines that are safe to write
into another note: no markup begins in them. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from posixpath import basename, dirname, relpath
from typing import Literal, TypeAlias
from urllib.parse import quote

from parachuted.vault import CONTEXT_NAMES, ParsedNote, parse_note

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
    """One line of at most 200 characters, without marks at its start, and with what could begin a
    link, a tag or a comment escaped.
    """
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
    """What `bare` gave, cut and escaped."""
    cut = line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1].rstrip() + "…"
    return _SPECIAL.sub(r"\\\g<0>", cut)


def name_of(path: str) -> str:
    """The name of a note's place: its folder for a context file, else its own."""
    name = basename(path)
    stem = name.rpartition(".")[0] or name
    place = basename(dirname(path)) or "the vault" if name in CONTEXT_NAMES else stem
    return plain(place) or "a note"


def link(watcher: str, path: str, title: str, style: LinkStyle) -> str:
    """A link from the note `watcher` to a file; `title` is plain.

    A name that a wikilink cannot hold has a markdown link.
    """
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
    """Take off links, comment marks, fences, the marks at the start, and the ticks that have no
    other half.
    """
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
    return (
        char
        if char.isalnum() or char in _HARMLESS_IN_URL
        else quote(char.encode("utf-8", "surrogateescape"))
    )


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
    """Take title, description and focus from a note's text; a note without a title goes by the name
    of its place.
    """
    note = parse_note(text.encode("utf-8", "surrogateescape"))
    return Extract(
        path=path,
        title=title_of(path, note),
        description=describe(note),
        focus=tuple(islice(_focus(note), _FOCUS_LINES)),
    )


def title_of(path: str, note: ParsedNote) -> str:
    value = note.values.get("title")
    return (
        plain(value if isinstance(value, str) else "") or plain(note.title or "") or name_of(path)
    )


def describe(note: ParsedNote) -> str:
    """How a note describes itself: its `description:`, else the first quotation above its sections,
    else its first paragraph.
    """
    for key in _DESCRIPTION_KEYS:
        value = note.values.get(key)
        if isinstance(value, str) and (line := plain(value)):
            return line
    stop = next((section.start for section in note.sections if section.level > 1), note.body.stop)
    head = list(visible_lines(_text(note, note.body.start, stop)))
    quoted = next((line for line in map(plain, filter(_QUOTE.match, head)) if line), "")
    first = next(
        (
            section
            for section in note.sections
            if section.level > 1 and section.title.strip().casefold() not in _LOGS
        ),
        None,
    )
    below = (
        visible_lines(_text(note, first.body_start, first.own_stop))
        if first is not None
        else iter(())
    )
    return quoted or _paragraph(head) or _paragraph(below)


def visible_lines(text: str) -> Iterator[str]:
    """Yield the lines that are read: none in a comment, a code fence, a callout or a block of
    HTML.
    """
    fence, skips = "", ""
    for line in _COMMENT.sub("", text).splitlines():
        mark = _FENCE.match(line)
        if fence:
            is_end = (
                mark is not None and mark[1].startswith(fence) and not line.strip().strip(fence[0])
            )
            fence = "" if is_end else fence
            continue
        if (skips == "quote" and not _QUOTE.match(line)) or (skips == "html" and not line.strip()):
            skips = ""
        if not skips:
            skips = "quote" if _CALLOUT.match(line) else "html" if _HTML.match(line) else ""
        if mark is not None and not skips:
            fence = mark[1]
        elif not skips:
            yield line


def _focus(note: ParsedNote) -> Iterator[str]:
    section = note.section(_FOCUS)
    lines = visible_lines(note.text(section.body)) if section is not None else iter(())
    return (line for line in map(plain, lines) if line)


def _paragraph(lines: Iterator[str] | list[str]) -> str:
    found: list[str] = []
    for line in lines:
        if line.strip() and not (_QUOTE.match(line) or _NO_PARAGRAPH.match(line)) and bare(line):
            found.append(line)
        elif found:
            break
    return plain(_TAGS_AT_END.sub("", " ".join(found)[:_PARAGRAPH_CHARS]))


def _text(note: ParsedNote, start: int, stop: int) -> str:
    return note.data[start : min(stop, start + _DESCRIPTION_CHARS)].decode("utf-8", "replace")
