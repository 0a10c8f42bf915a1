"""An event's name here, in Claude Code, and in the name of a script.

Ours are dotted words, as in the catalogue. A script or settings block written for Claude Code keeps
its own name for the same event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from parachuted.events.catalog import CATALOG, CORE

CLAUDE_NAMES: Mapping[str, str] = MappingProxyType(
    {kind.name: kind.claude for kind in CATALOG.values() if kind.claude}
)
"""Our name -> Claude Code's, where both mean the same."""

CLAUDE_EVENTS = frozenset(
    {
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "PermissionRequest",
        "PermissionDenied",
        "UserPromptSubmit",
        "UserPromptExpansion",
        "SessionStart",
        "SessionEnd",
        "Setup",
        "Stop",
        "SubagentStop",
        "SubagentStart",
        "StopFailure",
        "PreCompact",
        "PostCompact",
        "PreModelSwitch",
        "PostModelSwitch",
        "Notification",
        "TeammateIdle",
        "TaskCreated",
        "TaskCompleted",
        "Elicitation",
        "ElicitationResult",
        "ConfigChange",
        "InstructionsLoaded",
        "WorktreeCreate",
        "WorktreeRemove",
        "CwdChanged",
        "FileChanged",
        "DirectoryAdded",
        "MessageDisplay",
    }
)
"""All that Claude Code knows; those without a counterpart here are named in the problems."""

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
_DOTTED = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z0-9][a-z0-9_-]*)+")


class UnknownEventError(ValueError):
    """No event has that name; the message explains."""


def is_blocking(event: str) -> bool:
    """Whether a hook can stop what is about to happen."""
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
    if name in CLAUDE_EVENTS:
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
    return stem if "." in stem or stem in CLAUDE_EVENTS else stem.replace("-", ".")
