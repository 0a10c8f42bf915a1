"""Makes a line of another note safe to write into a note: no markup begins in it. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from posixpath import basename, dirname, relpath
from typing import Literal, TypeAlias
from urllib.parse import quote

from parachuted.vault import CONTEXT_NAMES

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
    """How most links in these texts are written."""
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
