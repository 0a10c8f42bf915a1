"""Splits a long Markdown text into messages, at its own boundaries. Pure.

A code block that is cut is closed in one message and opened again in the next. Where the text grows
at its end, the messages before the last ones stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_FENCE: Final = re.compile(r"^ {0,3}(`{3,20}|~{3,20})([^\n]*)$", re.MULTILINE)
_BREAKS: Final = (
    re.compile(r"\n[ \t]*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?:;])[ \t]"),
    re.compile(r"[ \t]"),
)
_LEAST: Final = 0.3  # of what fits: a better place before that leaves too little
_SHORTEST: Final = 200


def split(text: str, longest: int, size: Callable[[str], int] = len) -> list[str]:
    """The messages of a text, each of at most that size. No text is smaller than its number of
    characters. ValueError: fewer than 200.
    """
    if longest < _SHORTEST:
        raise ValueError(f"a message should have room for {_SHORTEST} characters")
    parts, head, rest = list[str](), "", text.strip("\n")
    while rest.strip():
        whole = _closed(head + rest) if len(rest) <= longest else ""
        if whole and size(whole) <= longest:
            parts.append(whole)
            break
        cut = _cut(head, rest, longest, size)
        part = head + rest[:cut]
        fence = _open_fence(part)
        rest = rest[cut:].removeprefix("\n") if fence else rest[cut:].lstrip("\n")
        if part.removeprefix(head).strip():
            parts.append(_closed(part.rstrip("\n")))
        head = f"{fence}\n" if fence else ""
    return parts


def _cut(head: str, rest: str, longest: int, size: Callable[[str], int]) -> int:
    low, high = 1, min(len(rest), longest)
    while low < high:  # the most that fit, with room for the end of a code block
        middle = (low + high + 1) // 2
        if size(head + rest[:middle]) + 21 <= longest:
            low = middle
        else:
            high = middle - 1
    least = int(low * _LEAST)
    for place, pattern in enumerate(_BREAKS):
        ends = [match.end() for match in pattern.finditer(rest, 0, low)]
        for end in reversed([end for end in ends if end > least][-50:]):
            if place or not _open_fence(head + rest[:end]):
                return end
    return low


def _closed(text: str) -> str:
    fence = _open_fence(text)
    return f"{text}\n{_mark(fence)}" if fence else text


def _open_fence(text: str) -> str:
    """The line that opened the code block in which the text ends; empty where it ends in none."""
    opening = ""
    for match in _FENCE.finditer(text):
        mark, info = match[1], match[2]
        if not opening:
            if mark[0] == "~" or "`" not in info:
                opening = f"{mark}{info}"
        elif mark.startswith(_mark(opening)) and not info.strip():
            opening = ""
    return opening if len(opening) <= _SHORTEST // 4 else _mark(opening)


def _mark(opening: str) -> str:
    return re.sub(r"^(`{1,20}|~{1,20}).*", r"\1", opening, flags=re.DOTALL)
