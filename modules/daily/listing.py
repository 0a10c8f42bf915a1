"""Listing: entries and imports as lines for a person at a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .imports import ImportReport
from .layouts import Dated

_NO_TIME = " " * 5


def listed_entries(found: Sequence[Dated], *, with_days: bool = False) -> str:
    """`11:33  Sowed the beans.` for each entry, with its other lines below it."""
    return "\n".join(line for one in found for line in _entry_lines(one, with_days=with_days))


def _entry_lines(one: Dated, *, with_days: bool) -> Iterator[str]:
    entry = one.entry
    clock = f"{one.at:%H:%M}" if entry.at or entry.created else _NO_TIME
    start = f"{one.day} {clock}  " if with_days else f"{clock}  "
    title = "" if entry.title in {entry.created, clock} else entry.title
    lines = [*filter(None, [title]), *entry.body.split("\n")]
    for number, line in enumerate(lines):
        yield f"{start if number == 0 else ' ' * len(start)}{line}".rstrip()


def listed_import(report: ImportReport, *, is_applied: bool) -> str:
    new = "added" if is_applied else "new"
    lines = [
        f"{one.day}  {one.title or one.source}  ({'there already' if one.is_there else new})"
        for one in report.entries
    ]
    lines += [f"left out: {problem}" for problem in report.problems]
    lines += report.warnings
    if report.media:
        lines.append(f"{report.media} pictures and recordings stay where they are.")
    return "\n".join([*lines, report.summary])
