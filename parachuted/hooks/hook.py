"""Hooks: one program that runs on an event, and the names of events, ours and Claude Code's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from parachuted.errors import NotFoundError
from parachuted.events.catalog import CATALOG, CORE

CLAUDE_NAMES: Mapping[str, str] = MappingProxyType(
    {kind.name: kind.claude for kind in CATALOG.values() if kind.claude}
)
"""Our name -> Claude Code's, where both mean the same."""

BLOCKING = frozenset(kind.name for kind in CATALOG.values() if kind.blocks)
"""The events that come before the act, so that a hook can stop it."""

NEVER_CLOSED = "stop.before"
"""The blocking event that no broken hook closes: an agent may always end."""

DEFAULT_TIMEOUT_S = 30.0

_OURS: Mapping[str, str] = MappingProxyType(
    {
        **{claude: ours for ours, claude in CLAUDE_NAMES.items()},
        "daily-entry": "daily.entry.created",
        "context-limit": "context.limit.approaching",
        "project-mention": "brain.mention.detected",
    }
)
_CLAUDE_NAME = re.compile(r"(?:[A-Z][a-z]+){1,4}")
_LEFTOVERS = ("~", ".bak", ".orig", ".swp", ".tmp", ".md", ".txt")
_DOTTED = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z0-9][a-z0-9_-]*)+")


def parse_event(name: str) -> str:
    """Our name for an event in settings. Raises NotFoundError. An unknown dotted name may be a
    module's, so it is accepted, except in the core's own families.
    """
    if name in CATALOG or ("-" not in name and name in _OURS):
        return _OURS.get(name, name)
    if _CLAUDE_NAME.fullmatch(name):
        raise NotFoundError(f"Claude Code's event {name} has no counterpart here")
    is_core = name.endswith(".before") or name.partition(".")[0] in CORE
    if is_core or not _DOTTED.fullmatch(name):
        raise NotFoundError(f"there is no event {name[:80]!r}; `parachute hooks docs` lists them")
    return name


def parse_script_name(name: str) -> str | None:
    """The event that a script `on-<event>` is for; None if it is not a hook. NotFoundError."""
    if not name.startswith("on-") or name.endswith(_LEFTOVERS):
        return None
    spelled = name.removeprefix("on-")
    stem = spelled.rpartition(".")[0] or spelled
    dashed = {event.replace(".", "-"): event for event in CATALOG}
    for candidate in (spelled, stem):
        if found := _OURS.get(candidate) or dashed.get(candidate.replace(".", "-")):
            return found
    is_spelled = "." in stem or _CLAUDE_NAME.fullmatch(stem)
    return parse_event(stem if is_spelled else stem.replace("-", "."))


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOptions:
    """How many run at once, whether each failure stops the act, and if changed scripts wait."""

    concurrency: int = 8
    fails_closed: bool = False
    must_approve: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Either `command`, a line for the shell, or `argv`. `event` is our name, `files` are the
    scripts whose content is pinned. `blocks_on_failure` None: the general setting decides.
    """

    id: str
    event: str
    command: str | None = None
    argv: tuple[str, ...] = ()
    matcher: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    is_async: bool = False
    blocks_on_failure: bool | None = None
    files: tuple[Path, ...] = ()
    source: Literal["settings", "script"] = "settings"
    description: str | None = None

    @property
    def may_block(self) -> bool:
        """Whether it can stop what is about to happen: nothing waits for an asynchronous one."""
        return self.event in BLOCKING and not self.is_async

    @property
    def words(self) -> tuple[str, ...]:
        return self.argv if self.command is None else ("/bin/sh", "-c", self.command)
