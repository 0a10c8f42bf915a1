"""Periods at the end of a line: `(since 2020-03)`, `(until 2021)`, `(2020 to 2021-06-30)`."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass

_DATE = r"\d{4}(?:-\d{2}(?:-\d{2})?)?"
_ENDING = re.compile(
    rf"\s*\((?:(?P<word>since|from|until|to|on|in)\s+(?P<date>{_DATE})"
    rf"|(?:from\s+)?(?P<first>{_DATE})\s*(?:to|until|\.\.|\u2013|\u2014|\s-\s)\s*"
    rf"(?P<last>{_DATE}|now|today|present))\)\s*$",
    re.IGNORECASE,
)
_SINCE, _UNTIL = frozenset({"since", "from"}), frozenset({"until", "to"})
_YEAR, _MONTH = 4, 7


@dataclass(frozen=True, slots=True)
class Period:
    """The first and the last day, YYYY-MM-DD; None: open on that side."""

    since: str | None = None
    until: str | None = None

    def holds(self, day: str) -> bool:
        return (self.since or "") <= day and (self.until is None or day <= self.until)


ALWAYS = Period()


def split_period(line: str) -> tuple[str, Period]:
    """The line without the period at its end, and that; a day that no calendar has is text."""
    at = line.rfind("(")  # nothing else begins one, and most lines have none
    found = _ENDING.match(line, len(line[:at].rstrip())) if at >= 0 else None
    if found is None:
        return line, ALWAYS
    word = (found["word"] or "").lower()
    first = None if word in _UNTIL else found["date"] or found["first"]
    last = None if word in _SINCE else found["date"] or found["last"]
    if last and not last[0].isdigit():
        last = None
    since, until = first and first_day(first), last and last_day(last)
    if (first and not since) or (last and not until):
        return line, ALWAYS
    return line[: found.start()].rstrip(), Period(since or None, until or None)


def first_day(date: str) -> str:
    """The first day of a year, a month or a day; "" for a date that no calendar has."""
    whole = date + "-01-01"[len(date) - _YEAR :] if len(date) <= _MONTH else date
    return whole if _is_day(whole) else ""


def last_day(date: str) -> str:
    if len(date) == _YEAR:
        date += "-12"
    if len(date) == _MONTH:
        year, month = int(date[:_YEAR]), int(date[5:])
        if not (year and 1 <= month <= 12):  # noqa: PLR2004  months of a year
            return ""
        date += f"-{calendar.monthrange(year, month)[1]:02}"
    return date if _is_day(date) else ""


def _is_day(text: str) -> bool:
    year, month, day = (int(part) for part in text.split("-"))
    return bool(
        year and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]  # noqa: PLR2004
    )
