"""Hooks: one program that runs on an event, the names of events, and what a person is
shown of it.

Ours are dotted words, as in the catalogue. A script or settings block written for Claude Code keeps
its own name for the same event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from parachuted.events.catalog import CATALOG, CORE

CLAUDE_NAMES: Mapping[str, str] = MappingProxyType(
    {kind.name: kind.claude for kind in CATALOG.values() if kind.claude}
)
"""Our name -> Claude Code's, where both mean the same."""

BLOCKING = frozenset(kind.name for kind in CATALOG.values() if kind.blocks)
"""The events that come before the act, so that a hook can stop it."""

NEVER_CLOSED = "stop.before"
"""The blocking event that goes on though a hook of it cannot be asked: no broken hook keeps an
agent from ending.
"""

_OURS: Mapping[str, str] = MappingProxyType({claude: ours for ours, claude in CLAUDE_NAMES.items()})
_SHORT: Mapping[str, str] = MappingProxyType(
    {
        "daily-entry": "daily.entry.created",
        "context-limit": "context.limit.approaching",
        "project-mention": "brain.mention.detected",
    }
)
_CLAUDE_NAME = re.compile(r"(?:[A-Z][a-z]+){1,4}")
_DOTTED = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z0-9][a-z0-9_-]*)+")


class UnknownEventError(ValueError):
    """No event has that name; the message explains."""


def is_blocking(event: str) -> bool:
    return event in BLOCKING


def claude_name(event: str) -> str | None:
    """Claude Code's name for our event; None: it has none."""
    return CLAUDE_NAMES.get(event)


def parse_event(name: str) -> str:
    """Our name for an event in settings, in either vocabulary. Raises UnknownEventError.

    An unknown dotted name may be a module's, so it is accepted, except in the core's own families.
    """
    if name in _OURS:
        return _OURS[name]
    if _CLAUDE_NAME.fullmatch(name):
        raise UnknownEventError(
            f"Claude Code's event {name} has no counterpart here, so its hooks do not run"
        )
    if name in CATALOG:
        return name
    if not _DOTTED.fullmatch(name):
        raise UnknownEventError(f"there is no event {name[:80]!r}")
    if name.endswith(".before") or name.partition(".")[0] in CORE:
        raise UnknownEventError(
            f"there is no event {name[:80]!r}; `parachute hooks docs` lists them"
        )
    return name


def parse_script_name(name: str) -> str | None:
    """The event that a script is for, by its file name; None if it is not a hook.

    `on-<event>` with any suffix or none: the event with dots or dashes, or in Claude Code's
    spelling. Raises UnknownEventError.
    """
    if not name.startswith("on-"):
        return None
    spelled = name.removeprefix("on-")
    stem = spelled.rpartition(".")[0]
    for candidate in filter(None, (spelled, stem)):
        if found := _known(candidate):
            return found
    return parse_event(_dotted(stem or spelled))


def _known(spelled: str) -> str | None:
    dashed = {event.replace(".", "-"): event for event in CATALOG}
    return _OURS.get(spelled) or _SHORT.get(spelled) or dashed.get(spelled.replace(".", "-"))


def _dotted(stem: str) -> str:
    return stem if "." in stem or _CLAUDE_NAME.fullmatch(stem) else stem.replace("-", ".")


DEFAULT_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """What to run and when.

    Either `command`, a line for the shell, or `argv`, run without a shell. `event` is our name.
    `files` are the scripts whose content is pinned. `blocks_on_failure` is None where the settings
    do not say, so that the general setting decides.
    """

    id: str
    event: str
    command: str | None = None
    argv: tuple[str, ...] | None = None
    matcher: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    is_async: bool = False
    blocks_on_failure: bool | None = None
    order: int = 0
    files: tuple[Path, ...] = ()
    source: Literal["settings", "script"] = "settings"
    description: str | None = None

    @property
    def may_block(self) -> bool:
        """Whether it can stop what is about to happen: nothing waits for an asynchronous one."""
        return is_blocking(self.event) and not self.is_async

    @property
    def shown(self) -> str:
        return self.command if self.command is not None else " ".join(self.argv or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class HookStatus:
    """A hook's state: `problem` is why it does not run, `claude` is Claude Code's name for its
    event; the times are since the daemon started.
    """

    hook: Hook
    claude: str | None
    blocking: bool
    problem: str | None = None
    runs: int = 0
    failures: int = 0
    last_ms: float | None = None
    slowest_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookError:
    """An error of a hook on that event."""

    hook: str
    message: str
    timestamp: datetime
    event: str = ""


@dataclass(slots=True, kw_only=True)
class HookCounts:
    """How often a hook has run, and how long it took."""

    runs: int = 0
    failures: int = 0
    last_ms: float | None = None
    slowest_ms: float | None = None

    def count(self, took_ms: float, *, is_failure: bool) -> None:
        self.runs += 1
        self.failures += is_failure
        self.last_ms = took_ms
        self.slowest_ms = max(took_ms, self.slowest_ms or 0.0)
