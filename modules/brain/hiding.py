"""Hiding: covers what is no prose in a note, in linear time, without moving what follows."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

HIDDEN = "\x1f"

_FRONTMATTER = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(?:.*?\n)??(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL
)
_MARK = re.compile(r"\\.|`++|~~~++|!?\[\[|[\[\]]|<|%%", re.DOTALL)
_WIKI = re.compile(r"!?\[\[[^\[\]\n]{0,1000}+\]\]")
_TARGET = re.compile(r"(?<!!)\[\[([^\[\]|#\n]{1,500}+)(?:[#|][^\[\]\n]{0,500}+)?\]\]")
_AFTER_LABEL = re.compile(
    r"\](?:\((?:[^()\n\\]|\\.|\([^()\n]{0,500}+\)){0,2000}+\)|\[[^\[\]\n]{0,500}+\])"
)
_DEFINITION = re.compile(r"\[[^\[\]\n]{1,500}+\]:[^\n]*+")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,1000}+>")
_RAW = re.compile(r"<(?:script|style|pre|code|textarea)\b", re.IGNORECASE)
_RAW_END = re.compile(r"</(?:script|style|pre|code|textarea)>", re.IGNORECASE)
_TICKS = re.compile(r"`++")
_BLANK_LINE = re.compile(r"\n[ \t\r]*+\n")
_MARGIN = re.compile(r"[ \t>]*+(?:(?:[-+*]|\d{1,9}+[.)])[ \t]++)*+\Z")
_FENCE_END = re.compile(r"^[ \t>]*+(`{3,}+|~{3,}+)[ \t\r]*+$", re.MULTILINE)
_WIDEST_MARGIN = 200
_LONGEST_LABEL = 2_000
_SHORTEST_FENCE = 3
_LIST_ITEM = re.compile(r"[ \t>]*+(?:[-+*]|\d{1,9}+[.)])[ \t]")
_INDENT = re.compile(r" {4}| {0,3}\t")


def hide(text: str) -> str:
    """The text with all that is no prose covered; its characters and lines stay where they are."""
    matter = _FRONTMATTER.match(text)
    done = matter.end() if matter else 0
    parts = [_cover(text[:done])]
    for start, stop in sorted(_Scan(text, done).spans()):
        if stop > done:
            parts += [text[done : max(start, done)], _cover(text[max(start, done) : stop])]
            done = stop
    visible = "".join([*parts, text[done:]])
    return _hide_indented(visible) if "\n    " in visible or "\t" in visible else visible


def wikilinks(text: str) -> Iterator[tuple[int, int, str]]:
    """Where wikilinks stand that are no code: from which character to which, and their target."""
    visible = hide(text.replace("[[", "((").replace("]]", "))"))
    for found in _TARGET.finditer(text):
        if visible[found.start()] != HIDDEN:
            yield found.start(), found.end(), found[1].strip()


def _cover(text: str) -> str:
    return "\n".join(HIDDEN * len(line) for line in text.split("\n"))


class _Scan:
    def __init__(self, text: str, start: int) -> None:
        self._text, self._start = text, start
        self._open: list[int] = []
        self._runs: dict[int, list[int]] | None = None
        self._paragraph_stop = start
        self._vain: set[str] = set()

    def spans(self) -> Iterator[tuple[int, int]]:
        at = self._start
        while (found := _MARK.search(self._text, at)) is not None:
            here, mark = found.start(), found[0]
            if mark[0] == "\\":
                at = found.end()
                continue
            if mark in {"[", "]"}:
                span = self._bracket(here, mark)
            elif mark[0] in "`~":
                span = self._code(here, mark)
            elif mark[0] in "![":
                span = _span(_WIKI, self._text, here)
            else:
                span = self._aside(here, mark)
            if span is not None:
                yield span
            elif mark in {"[[", "![["}:
                self._open += [here + mark.index("["), found.end() - 1]
            at = span[1] if span is not None else found.end()

    def _bracket(self, here: int, mark: str) -> tuple[int, int] | None:
        if mark == "[":
            if self._is_margin(here):
                span = _span(_DEFINITION, self._text, here)
                if span is not None:
                    return span
            self._open.append(here)
            return None
        opened = self._open.pop() if self._open else None
        if opened is None or here - opened > _LONGEST_LABEL:
            return None
        span = _span(_AFTER_LABEL, self._text, here)
        if span is None or _BLANK_LINE.search(self._text, opened, here):
            return None
        return opened, span[1]

    def _code(self, here: int, mark: str) -> tuple[int, int] | None:
        text = self._text
        line_stop = text.find("\n", here)
        line_stop = len(text) if line_stop < 0 else line_stop
        if (
            len(mark) >= _SHORTEST_FENCE
            and (mark[0] == "~" or "`" not in text[here + len(mark) : line_stop])
            and self._is_margin(here)
        ):
            return here, self._after_fence(mark, line_stop)
        if mark[0] == "~":
            return None
        if self._runs is None:
            self._runs = {}
            for match in _TICKS.finditer(text, here):
                self._runs.setdefault(len(match[0]), []).append(match.start())
        places = self._runs.get(len(mark), [])
        index = bisect_left(places, here + len(mark))
        if index < len(places) and places[index] < self._paragraph_end(here):
            return here, places[index] + len(mark)
        return None

    def _after_fence(self, mark: str, at: int) -> int:
        for match in _FENCE_END.finditer(self._text, at):
            if match[1].startswith(mark):
                return match.end()
        return len(self._text)

    def _aside(self, here: int, mark: str) -> tuple[int, int] | None:
        text = self._text
        if mark == "%%":
            return self._until("%%", here, here + 2)
        if text.startswith("<!--", here):
            span = self._until("-->", here, here + 4)
            return span or ((here, len(text)) if self._is_margin(here) else None)
        if "<" not in self._vain and _RAW.match(text, here):
            end = _RAW_END.search(text, here)
            if end is not None:
                return here, end.end()
            self._vain.add("<")
        return _span(_TAG, text, here)

    def _until(self, closing: str, here: int, at: int) -> tuple[int, int] | None:
        found = -1 if closing in self._vain else self._text.find(closing, at)
        if found < 0:
            self._vain.add(closing)
            return None
        return here, found + len(closing)

    def _is_margin(self, here: int) -> bool:
        line = self._text.rfind("\n", max(0, here - _WIDEST_MARGIN), here) + 1
        if line == 0 and here > _WIDEST_MARGIN:
            return False
        return _MARGIN.match(self._text, max(line, self._start), here) is not None

    def _paragraph_end(self, here: int) -> int:
        if here >= self._paragraph_stop:
            blank = _BLANK_LINE.search(self._text, here)
            self._paragraph_stop = blank.start() + 1 if blank else len(self._text)
        return self._paragraph_stop


def _span(pattern: re.Pattern[str], text: str, at: int) -> tuple[int, int] | None:
    found = pattern.match(text, at)
    return found.span() if found else None


def _hide_indented(text: str) -> str:
    """Covers lines that are code because they are indented: below a blank line, outside lists."""
    lines = text.split("\n")
    is_code, after_blank, in_list = False, True, False
    for number, line in enumerate(lines):
        if not line.strip():
            after_blank = True
            continue
        is_indented = _INDENT.match(line) is not None
        is_code = is_indented and not in_list and (is_code or after_blank)
        if is_code:
            lines[number] = HIDDEN * len(line)
        elif _LIST_ITEM.match(line):
            in_list = True
        elif after_blank and not is_indented:
            in_list = False
        after_blank = False
    return "\n".join(lines)
