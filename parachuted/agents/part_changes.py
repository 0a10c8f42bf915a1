"""Describes how two texts of a note differ, in a few plain lines, without a model. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from parachuted.agents.extract import bare, escape, plain, visible_lines
from parachuted.vault.note import (
    FRONTMATTER,
    OPENING,
    PARA_ID,
    WHOLE,
    holds_ids,
    parse_note,
    unit_texts,
)

_MOST_UNITS = 8
_MOST_ITEMS = 6
_MOST_LINES = 5_000
_MOST_PAIRED = 60
_SHORT = 100
_LIKE = 0.6
_STAMPS = {
    "updated",
    "modified",
    "last modified",
    "last_modified",
    "date modified",
    "date_modified",
    "updated_at",
    "modified_at",
    "mtime",
}

_IDS = {"@para_id", "@entry_id"}  # of programs: they say nothing to a person

_BOX = re.compile(r"[\s>]*(?:[-*+]|\d{1,9}[.)])\s+\[([^\[\]\\<])\]\s")
# What the Tasks plugin adds to a line whose box is ticked: a sign and a date.
_DONE_AT = re.compile(r"\s*(?:\u2705|\u274c|\u2795)\s*\d{4}-\d{2}-\d{2}")
_LABELS = {OPENING: "", FRONTMATTER: "frontmatter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartChanges:
    """What is new in one part of a note: its heading or key (empty for the text above all
    sections), and a plain line for each item.
    """

    label: str
    items: tuple[str, ...]


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
) -> tuple[PartChanges, ...]:
    """The present content of the changed `units`, in their order; ids of programs are named only
    where nothing else changed.

    `title` is the note's, which is left out of headings' paths.
    """
    old, new = unit_texts(parse_note(before)), unit_texts(parse_note(after))
    if old is None or new is None or WHOLE in units:
        return ()
    named = [unit for unit in units if unit not in _IDS]
    if units and not named:
        return (PartChanges(label="", items=("given an id",)),)
    said = [
        unit
        for unit in named
        if not all(holds_ids(unit, one[unit]) for one in (old, new) if unit in one)
    ]
    shown = [unit for unit in said if unit[1:].casefold() not in _STAMPS] or said or named
    found = [
        news
        for unit in shown[:_MOST_UNITS]
        if (news := _news(unit, old.get(unit), new.get(unit), title)) is not None
    ]
    more = len(shown) - _MOST_UNITS
    return (
        *found,
        *([PartChanges(label="", items=(f"and {more} more parts",))] if more > 0 else []),
    )


def _news(unit: str, old: str | None, new: str | None, title: str | None) -> PartChanges | None:
    if unit.startswith("@"):
        return _key_news(plain(unit[1:]) or "a key", old, new)
    label = (
        ""
        if unit == title
        else _LABELS.get(
            unit, plain(PARA_ID.sub("", unit.removeprefix(f"{title} > ").replace(" > ", " / ")))
        )
    )
    items = list(_line_news(_lines(old or ""), _lines(new or "")))
    if new is None:
        items = [f"gone, with {len(items)} lines" if len(items) > 1 else "gone"]
    if not items:
        return PartChanges(label=label, items=("new" if old is None else "changed",))
    more = len(items) - _MOST_ITEMS
    return PartChanges(
        label=label, items=(*items[:_MOST_ITEMS], *([f"and {more} more"] if more > 0 else []))
    )


def _key_news(key: str, old: str | None, new: str | None) -> PartChanges:
    was, now = (None if text is None else json.loads(text) for text in (old, new))
    if isinstance(was, list) and isinstance(now, list):
        came, went = (
            [_value(one) for one in many if one not in others]
            for many, others in ((now, was), (was, now))
        )
        parts = [
            f"{word} {', '.join(values)}"
            for word, values in (("added", came), ("removed", went))
            if values
        ]
        return PartChanges(label=key, items=("; ".join(parts) or "in another order",))
    before = f" (was {_value(was)})" if isinstance(was, str | list) and was else ""
    return PartChanges(
        label=key, items=(f"{_value(now)}{before}" if new is not None else f"removed{before}",)
    )


def _value(value: object) -> str:
    texts = value if isinstance(value, list) else [value]
    words = ", ".join(str(one) for one in texts if isinstance(one, str))
    return plain(words) or ("empty" if value in ("", [], None) else "changed")


def _lines(text: str) -> list[_Line]:
    found = []
    for line, _ in zip(visible_lines(text), range(_MOST_LINES), strict=False):
        box = _BOX.match(line)
        words = bare(_DONE_AT.sub("", line))
        if words:
            found.append(_Line(words, box[1] if box else None))
    return found


def _line_news(old: Sequence[_Line], new: Sequence[_Line]) -> Iterator[str]:
    """Tasks whose boxes changed, then added lines, then removed ones."""
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
    """The lines that the others do not have as well, in order."""
    known = Counter(others)
    left = []
    for line in many:
        if known[line] > 0:
            known[line] -= 1
        else:
            left.append(line)
    return left


def _did(box: str) -> str:
    return "opened" if box == " " else "closed" if box in "xX" else "marked"


def _came(line: _Line, before: _Line | None) -> str:
    start = (
        f"{_did(line.box)} "
        if line.box is not None and (before is None or before.box != line.box)
        else ""
    )
    if before is None:
        return f"{start}{line.shown}"
    if len(before.text) > _SHORT and line.text.startswith(before.text):
        return f"{start}… {escape(line.text[len(before.text) :].strip())}"
    was = f" (was: {escape(before.text)})" if len(before.text) <= _SHORT else ""
    return f"{start}{line.shown}{was}"


def _like(line: _Line, went: Sequence[_Line]) -> _Line | None:
    """The line that this one was, if one that went is much like it."""
    if not went or len(went) > _MOST_PAIRED:
        return None
    starts = next(
        (one for one in went if line.text.startswith(one.text) and len(one.text) > _SHORT), None
    )
    found = difflib.get_close_matches(
        line.text[: _SHORT * 2], [one.text[: _SHORT * 2] for one in went], n=1, cutoff=_LIKE
    )
    return starts or next(
        (one for one in went if found and one.text[: _SHORT * 2] == found[0]), None
    )
