"""What is said of some days: from an agent's words, or without a model from the entries alone.

Pure. Each claim cites the entry that it comes from, as a link; one that cites none is dropped.
An open loop is what entries leave undone or ask: the words of `- [ ] call Kim` with `[x]` close it,
and a question is also closed by a line that goes on after it. The same words again, still open,
belong to the entry that opened them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from parachuted.modules import Activity

from .layouts import Dated

LoopKind = Literal["task", "question"]

_TASK = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[(?P<mark>[ xX])\][ \t]+(?P<text>\S.*)")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_WORDS = re.compile(r"\w+")
_SHORTEST = 2  # words of a question; "Really?" asks nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Mentioned:
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


def loops_in(dated_entries: Iterable[Dated]) -> list[OpenLoop]:
    """The loops of entries, which come oldest first; closed ones stay in the list."""
    loops: dict[str, OpenLoop] = {}
    for dated in dated_entries:
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


_CITED = re.compile(r"[ \t]*\[e(\d{1,4})\]")
_LINK = re.compile(r"\[\[([^\[\]|#\r\n]+)(?:[|#][^\[\]\r\n]*)?\]\]")
_ODD = re.compile(r"[\[\]|#^\r\n]")
_QUESTION = re.compile(r"#{1,6}[ \t]+.*question.*", re.IGNORECASE)
_SENTENCE = re.compile(r"(.+?[.!?…])(?:\s|$)", re.DOTALL)
_LONGEST = 200
_MOST_NAMES, _MOST_LOOPS = 12, 20
OFFLINE_NOTE = "*Made without a model, from the entries' own words.*"


def quoted_entries(entries: Sequence[Dated], longest: int = 20_000) -> str:
    return "\n\n".join(
        f"[e{number}] {one.day} {one.visible.title}\n{one.visible.body[:longest]}"
        for number, one in enumerate(entries, 1)
        if one.visible
    )


def session_lines(day: str, activities: Iterable[Activity]) -> Iterator[str]:
    last = {one.session_id or str(number): one for number, one in enumerate(activities)}
    for one in last.values():
        title = f"{one.session_title}: " if one.session_title else ""
        yield " ".join(f"- {day} {title}{one.summary}".split())


def linked(words: str, entries: Sequence[Dated]) -> str:
    def link(match: re.Match[str]) -> str:
        number = int(match[1])
        return f" {link_to(entries[number - 1])}" if 0 < number <= len(entries) else ""

    return _CITED.sub(link, words).strip()


def cited(words: str, entries: Sequence[Dated]) -> str:
    """The words with links for numbers, without claims that cite no entry."""
    lines: list[str] = []
    is_question = False
    for line in words.strip().splitlines():
        if line.lstrip().startswith("#"):
            is_question = _QUESTION.fullmatch(line.strip()) is not None
            lines.append(line.strip())
            continue
        numbers = [int(number) for number in _CITED.findall(line)]
        dated_entries = [entries[number - 1] for number in numbers if 0 < number <= len(entries)]
        text = _CITED.sub("", line).rstrip()
        if dated_entries:
            lines.append(f"{text} {' '.join(dict.fromkeys(map(link_to, dated_entries)))}")
        elif not text.strip() or is_question:
            lines.append(text)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def has_claims(text: str) -> bool:
    return any(line.strip() and not line.startswith("#") for line in text.splitlines())


def reflect(entries: Sequence[Dated], loops: Sequence[OpenLoop], names: Mapping[str, str]) -> str:
    """Of `loops`, the oldest first, the first is asked about."""
    happened = [
        f"- {first_of(entry)} {link_to(entry)}" for entry in entries if entry.entry.body.strip()
    ]
    people = list(_people(entries, names))[:_MOST_NAMES]
    waiting = [f"- {loop.text} {_opened(loop)}" for loop in loops]
    question = (
        f"What would it take to close “{loops[0].text}”?"
        if loops
        else "What of this should not be forgotten?"
    )
    parts = [
        ("What happened", happened),
        ("People and projects", people),
        ("Open loops", waiting[:_MOST_LOOPS]),
        ("One question", [question]),
    ]
    sections = (f"## {title}\n\n" + "\n".join(lines) for title, lines in parts if lines)
    return f"{OFFLINE_NOTE}\n\n" + "\n\n".join(sections)


def _opened(loop: OpenLoop) -> str:
    return _link(loop.opened_by.path, loop.opened_by.day)


def link_to(one: Dated) -> str:
    entry = one.entry
    heading = f"{entry.para_id or ''} {entry.title}".strip()
    if "/journals/" not in one.path or _ODD.search(heading):
        return _link(one.path, _ODD.sub(" ", entry.title).strip() or one.day)
    return _link(f"{one.path.removesuffix('.md')}#{heading}", entry.title or one.day)


def _link(path: str, label: str) -> str:
    return f"[[{path.removesuffix('.md')}|{label}]]"


def _people(entries: Sequence[Dated], names: Mapping[str, str]) -> Iterator[str]:
    found: dict[str, list[Dated]] = {}
    for entry in entries:
        linked = [target.strip().rpartition("/")[2] for target in _LINK.findall(entry.entry.body)]
        known = [names[para_id] for para_id in entry.entry.mentions if para_id in names]
        for name in dict.fromkeys((*linked, *known)):
            found.setdefault(name, []).append(entry)
    for name, ones in found.items():
        yield f"- {name} {' '.join(map(link_to, ones))}"


def first_of(dated_entry: Dated) -> str:
    text = " ".join((dated_entry.visible or dated_entry.entry).body.split()).lstrip("#>-*+ ")
    match = _SENTENCE.match(text)
    sentence = match[1] if match else text
    return sentence if len(sentence) <= _LONGEST else sentence[:_LONGEST].rsplit(" ", 1)[0] + " …"
