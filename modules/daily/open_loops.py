"""Open loops: what entries leave undone or ask, until an entry does it or answers. Pure.

The words of `- [ ] call Kim` with `[x]` close it; a question is also closed by a line that goes on
after it. The same words again, still open, belong to the entry that opened them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from .layouts import Dated

LoopKind = Literal["task", "question"]

_TASK = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[(?P<mark>[ xX])\][ \t]+(?P<text>\S.*)")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_WORDS = re.compile(r"\w+")
_SHORTEST = 2  # words of a question; "Really?" asks nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Mentioned:
    """An entry, as a loop names it; `day` is YYYY-MM-DD."""

    id: str
    path: str
    day: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """Something undone, or a question; `carried` are the entries that took it up again."""

    text: str
    kind: LoopKind
    opened_by: Mentioned
    carried: list[Mentioned] = field(default_factory=list)
    closed_by: Mentioned | None = None


def loops_in(found: Iterable[Dated]) -> list[OpenLoop]:
    """The loops of entries, which come oldest first; closed ones stay in the list."""
    loops: dict[str, OpenLoop] = {}
    for dated in found:
        named = Mentioned(id=dated.id, path=dated.path, day=dated.day)
        for line in _lines(dated.entry.body):
            _take(loops, line, named)
    return list(loops.values())


def _take(loops: dict[str, OpenLoop], line: str, named: Mentioned) -> None:
    task = _TASK.fullmatch(line)
    text = task["text"] if task else _ITEM.sub("", line, count=1).strip()
    key = _key(text)
    known = loops.get(key)
    if known is None and not task:
        answered = text.find("? ") + 1
        before = _key(text[:answered])
        if answered and before in loops and loops[before].closed_by is None:
            loops[before] = replace(loops[before], closed_by=named)
        elif text.endswith("?") and len(_WORDS.findall(text)) >= _SHORTEST:
            loops[key] = OpenLoop(text=text, kind="question", opened_by=named)
    elif task and task["mark"] != " ":
        if known is not None and known.closed_by is None:
            loops[key] = replace(known, closed_by=named)
    elif known is None or known.closed_by is not None:
        loops[key] = OpenLoop(text=text, kind="task" if task else "question", opened_by=named)
    elif named not in (known.opened_by, *known.carried):
        loops[key] = replace(known, carried=[*known.carried, named])


def _lines(body: str) -> Iterator[str]:
    fence = ""
    for line in body.splitlines():
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
        elif line.strip():
            yield line.strip()


def _key(text: str) -> str:
    return " ".join(_WORDS.findall(text.casefold()))
