"""Scheduled agents as files, `Daily/.agents/{name}.md`: when, where to, and instructions. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, time
from typing import Final

from .lines import front_end, front_map, front_values, split

FOLDER: Final = "Daily/.agents/"
_JOURNAL, _RECENT, _CHAT_LOG = "read_journal", "read_recent_journals", "read_chat_log"
TOOLS: Final = (_JOURNAL, _RECENT, _CHAT_LOG, "read_recent_sessions", "write_output")
_ENTRIES = ("Daily/journals/**", "Daily/entries/**")
_READS: Final = {_JOURNAL: _ENTRIES, _RECENT: _ENTRIES, _CHAT_LOG: ("Daily/chat-log/**",)}
_LONGEST = 252  # a file's name has 255 bytes at most, its suffix among them
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_RESERVED = frozenset({"status"})
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)")
_OUTPUT = re.compile(
    r"Daily/(?![^/]*/?\.)(?:[^/.\x00-\x1f][^/\x00-\x1f]*/)+[^/.\x00-\x1f][^/\x00-\x1f]*\.md"
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MINUTES = 60
_MOST_DAYS = 31
_OFF = frozenset({"false", "no", "off", "0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalAgent:
    """`days` is how many days a run looks at, the given one last; `weekday` is 0 for Monday, None
    for each day. `tools` are all that it may read by.
    """

    name: str
    display_name: str
    description: str
    is_enabled: bool
    at: time
    weekday: int | None
    days: int
    output: str
    tools: tuple[str, ...]
    prompt: str
    is_shipped: bool = False

    @property
    def reads_entries(self) -> bool:
        return not {_JOURNAL, _RECENT}.isdisjoint(self.tools)

    @property
    def reads_earlier(self) -> bool:
        """Whether a run is given more than the entries of its day."""
        return _RECENT in self.tools

    @property
    def readable(self) -> tuple[str, ...]:
        found = (pattern for tool in self.tools for pattern in _READS.get(tool, ()))
        return tuple(dict.fromkeys(found))

    def output_path(self, day: date) -> str:
        return self.output.replace("{date}", day.isoformat())

    @property
    def cron(self) -> str:
        day = "*" if self.weekday is None else WEEKDAYS[self.weekday][:3]
        return f"{self.at.minute} {self.at.hour} * * {day}"


def is_name(name: str) -> bool:
    return NAME.fullmatch(name) is not None and len(name) <= _LONGEST and name not in _RESERVED


def parse_agent(name: str, text: str, *, is_shipped: bool = False) -> JournalAgent:
    """The agent in a file called `name`.md. What cannot be understood counts as not said."""
    lines = split(text)
    values = front_values(lines)
    schedule, output = front_map(lines, "schedule"), front_map(lines, "output")
    clock = schedule.get("time") or _text(values, "schedule")
    path = output.get("path") or _text(values, "output")
    path = path.replace("{name}", name)
    day = schedule.get("day", "").casefold()
    days = _text(values, "days")
    return JournalAgent(
        name=name,
        display_name=_text(values, "displayName") or name.replace("-", " ").capitalize(),
        description=_text(values, "description"),
        is_enabled=schedule.get("enabled", "").casefold() not in _OFF,
        at=_time(clock),
        weekday=WEEKDAYS.index(day) if day in WEEKDAYS else None,
        days=min(int(days), _MOST_DAYS) if days.isdecimal() and int(days) else 1,
        is_shipped=is_shipped,
        output=path
        if _OUTPUT.fullmatch(path) and "{date}" in path
        else f"Daily/{name}/{{date}}.md",
        tools=_tools(values.get("tools")),
        prompt="".join(lines[front_end(lines) :]).strip(),
    )


def _text(values: Mapping[str, str | tuple[str, ...]], key: str) -> str:
    value = values.get(key, "")
    return value if isinstance(value, str) else ""


def _tools(said: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The first three where none are said."""
    if said is None or said == "":
        return TOOLS[:3]
    names = [one.strip() for one in said.split(",")] if isinstance(said, str) else said
    return tuple(one for one in TOOLS if one in names)


def _time(clock: str) -> time:
    """`3:00`, or the minutes of the day, which is what some YAML readers make of it."""
    found = _CLOCK.fullmatch(clock)
    if found:
        hour, minute = int(found[1]), int(found[2])
    else:
        hour, minute = divmod(int(clock) if clock.isdecimal() else 3 * _MINUTES, _MINUTES)
    try:
        return time(hour, minute)
    except ValueError:
        return time(3)
