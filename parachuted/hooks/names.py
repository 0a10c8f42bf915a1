"""Names: what an event is called here, by Claude Code, and in the name of a dropped script.

Ours are dotted words, as in the catalogue. A script or a block of settings written for Claude Code keeps its own name for the same thing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from parachuted.events.catalog import CATALOG

CLAUDE_NAMES: Mapping[str, str] = MappingProxyType({
    "session.start": "SessionStart",
    "session.end": "SessionEnd",
    "prompt.before": "UserPromptSubmit",
    "tool.before": "PreToolUse",
    "tool.after": "PostToolUse",
    "stop.before": "Stop",
    "compact.before": "PreCompact",
})  # fmt: skip
"""Our name -> Claude Code's, where both mean the same."""

CLAUDE_EVENTS = frozenset({
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "PermissionRequest", "PermissionDenied", "UserPromptSubmit",
    "UserPromptExpansion", "SessionStart", "SessionEnd", "Setup", "Stop", "SubagentStop", "SubagentStart", "StopFailure", "PreCompact",
    "PostCompact", "PreModelSwitch", "PostModelSwitch", "Notification", "TeammateIdle", "TaskCreated", "TaskCompleted", "Elicitation",
    "ElicitationResult", "ConfigChange", "InstructionsLoaded", "WorktreeCreate", "WorktreeRemove", "CwdChanged", "FileChanged",
    "DirectoryAdded", "MessageDisplay",
})  # fmt: skip
"""All that Claude Code knows; those without a counterpart here are told of by name."""

BLOCKING = frozenset({
    "write.before", "bubble.before", "tool.before", "module.load.before", "prompt.before", "stop.before", "compact.before",
})  # fmt: skip
"""The events that come before the act, so that a hook can stop it."""

FACTS = frozenset({
    "session.start", "session.end", "tool.after", "daily.entry.created", "daily.reflection.completed", "chat.session.created",
    "chat.session.message", "context.limit.approaching", "brain.mention.detected",
})  # fmt: skip
"""Named facts of the specification. They are known by name also where the part that tells of them is not there."""

_OURS: Mapping[str, str] = MappingProxyType({claude: ours for ours, claude in CLAUDE_NAMES.items()})
_SHORT: Mapping[str, str] = MappingProxyType({
    "daily-entry": "daily.entry.created",
    "context-limit": "context.limit.approaching",
    "project-mention": "brain.mention.detected",
})  # fmt: skip
_CORE = frozenset({"file", "watch", "task", "run", "vault", "budget", "session", "tool", "module", "hook", "context"})
_DOTTED = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z0-9][a-z0-9_-]*)+")


class UnknownEventError(ValueError):
    """No event of that name can ever happen here; the message says why."""


def known_events() -> frozenset[str]:
    """Every event that the core or an official module tells of, by our name."""
    return BLOCKING | FACTS | frozenset(CATALOG)


def is_blocking(event: str) -> bool:
    """Whether a hook can stop what is about to happen."""
    return event in BLOCKING


def claude_name(event: str) -> str | None:
    """Claude Code's name for our event; None: it has none."""
    return CLAUDE_NAMES.get(event)


def parse_event(name: str) -> str:
    """Our name for an event named in settings, in either vocabulary. Raises UnknownEventError.

    A dotted name that nobody here has heard of may be a module's, so it is taken; not so in a family that is the core's alone.
    """
    if name in _OURS:
        return _OURS[name]
    if name in CLAUDE_EVENTS:
        raise UnknownEventError(f"Claude Code's event {name} has no counterpart here, so its hooks do not run")
    if name in known_events():
        return name
    if not _DOTTED.fullmatch(name):
        raise UnknownEventError(f"there is no event {name[:80]!r}")
    if name.endswith(".before") or name.partition(".")[0] in _CORE:
        raise UnknownEventError(f"there is no event {name[:80]!r}; `parachute hooks docs` lists them")
    return name


def parse_script_name(name: str) -> str | None:
    """The event that a dropped script is for, by its file's name; None: it is no hook. Raises UnknownEventError.

    `on-<event>` with any suffix or none: the event with dots or dashes between its words, or as Claude Code calls it.
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
    dashed = {event.replace(".", "-"): event for event in known_events()}
    return _OURS.get(spelled) or _SHORT.get(spelled) or dashed.get(spelled.replace(".", "-"))


def _dotted(stem: str) -> str:
    return stem if "." in stem or stem in CLAUDE_EVENTS else stem.replace("-", ".")
