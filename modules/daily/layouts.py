"""The two ways in which entries lie on the disk: many in a day's file, or one in each file."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Final, Literal

from parachuted.modules import is_conflict_copy, visible_to_agents

from . import entries, journal
from .entry import Entry, JournalError

Layout = Literal["journals", "entries"]

JOURNALS: Final = "Daily/journals/"
ENTRIES: Final = "Daily/entries/"
UNKNOWN_DAY: Final = "1970-01-01"
_TYPED = "# "
_LONGEST_TITLE = 200
_DAY = re.compile(rf"{JOURNALS}(?P<day>\d{{4}}-\d\d-\d\d)\.md")
_FILE = re.compile(rf"{ENTRIES}(?P<name>[^/]+)\.md")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated:
    """`mark` names it in its file; `visible` is what agents may see of it, None: nothing."""

    entry: Entry
    path: str
    day: str
    mark: str
    visible: Entry | None

    @property
    def id(self) -> str:
        """Where it has none, of its place and text, so that no edit meets another entry."""
        if self.entry.para_id:
            return self.entry.para_id
        if match := _FILE.fullmatch(self.path):
            return match["name"] if self.entry.is_typed else self.entry.key
        return f"{self.day}.{self.entry.key}-{self.fingerprint}"

    @property
    def fingerprint(self) -> str:
        said = f"{self.entry.title}\n{self.entry.body}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(said, digest_size=4).hexdigest()

    @property
    def at(self) -> datetime:
        """In the daemon's time zone where the file names none; midnight where it names no time."""
        if self.entry.at:
            return self.entry.at
        zone = self.entry.zone
        for clock in (f"{self.entry.created or '00:00':0>5}", "00:00"):
            with suppress(ValueError, OverflowError, OSError):
                at = datetime.fromisoformat(f"{self.day}T{clock}")
                return at.astimezone() if zone is None else at.replace(tzinfo=zone)
        return datetime.fromisoformat(f"{self.day}T00:00").replace(tzinfo=UTC)


def owns(path: str) -> bool:
    is_ours = day_of(path) is not None or _FILE.fullmatch(path) is not None
    return is_ours and not is_conflict_copy(path)


def day_of(path: str) -> str | None:
    """The day that a path names; None: the file itself says it."""
    match = _DAY.fullmatch(path)
    with suppress(ValueError):
        return date.fromisoformat(match["day"]).isoformat() if match else None
    return None


def is_misnamed(path: str) -> bool:
    return _DAY.fullmatch(path) is not None and day_of(path) is None


def journal_path(day: str) -> str:
    return f"{JOURNALS}{day}.md"


def read(path: str, text: str) -> tuple[Dated, ...]:
    dated_entries = _read(path, text)
    visible = visible_to_agents(text)
    if visible is text:
        return dated_entries
    by_mark = {dated_entry.mark: dated_entry.entry for dated_entry in _read(path, visible)}
    return tuple(replace(entry, visible=by_mark.get(entry.mark)) for entry in dated_entries)


def _read(path: str, text: str) -> tuple[Dated, ...]:
    match = _FILE.fullmatch(path)
    if match:
        alone = entries.parse(text, match["name"])
        held: tuple[Entry, ...] = (alone,)
        day = alone.at.date().isoformat() if alone.at else UNKNOWN_DAY
    else:
        held, day = journal.parse(text).entries, day_of(path) or UNKNOWN_DAY
    titles: Counter[str] = Counter()
    dated = []
    for entry in held:
        titles[entry.title] += entry.is_typed
        mark = entry.key
        if entry.is_typed:
            mark = f"{_TYPED}{titles[entry.title]} {_short(entry.title)}"
        dated.append(Dated(entry=entry, path=path, day=day, mark=mark, visible=entry))
    return tuple(dated)


def _short(title: str) -> str:
    if len(title) <= _LONGEST_TITLE:
        return title
    digest = hashlib.blake2b(title.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{title[:_LONGEST_TITLE]} {digest}"


def has_id(mark: str) -> bool:
    return not mark.startswith(_TYPED)


def edited(
    dated: Dated,
    text: str,
    *,
    content: str | None = None,
    title: str | None = None,
    status: str | None = None,
) -> str:
    key = dated.entry.key
    if day_of(dated.path):
        text = text if content is None else journal.replace_body(text, key, content)
        text = text if title is None else journal.replace_title(text, key, title)
        return text if status is None else journal.set_field(text, key, "status", status)
    text = text if content is None else entries.replace_body(text, content)
    text = text if title is None else entries.replace_title(text, title)
    return text if status is None else entries.set_key(text, "status", status)


def find(dated: Dated, text: str) -> Dated:
    for dated_entry in read(dated.path, text):
        if dated_entry.mark == dated.mark:
            return dated_entry
    raise JournalError(f"{dated.path} has no entry {dated.id}.")


def in_order(dated_entries: list[Dated]) -> list[Dated]:
    latest = ""
    placed: list[tuple[str, Dated]] = []
    for entry in dated_entries:
        clock = f"{entry.entry.at:%H:%M:%S.%f}" if entry.entry.at else f"{entry.entry.created:0>5}"
        if day_of(entry.path):
            clock = latest = max(latest, clock if entry.entry.created else "")
        placed.append((clock, entry))
    return [dated_entry for _, dated_entry in sorted(placed, key=lambda pair: pair[0])]
