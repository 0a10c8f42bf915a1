"""Hook: a program that runs on an event, when it is meant, and the names of events."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from parachuted.errors import NotFoundError
from parachuted.events.catalog import CATALOG, CORE
from parachuted.hooks.hook_event import CLAUDE_NAMES, FULL_NAME, HookEvent
from parachuted.processes.heavy import load_heavy_here

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
_NAMES = re.compile(r"[\w ,|-]+", re.ASCII)


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


def compile_matcher(text: str | None) -> Callable[[str], bool]:
    """A matcher is `*` or nothing (everything), names joined by `|`, or a regular expression of
    RE2's, found anywhere in time linear in the subject. Raises ValueError where it never matches.
    """
    if text is None or text in {"", "*"}:
        return _is_anything
    if _NAMES.fullmatch(text):
        names = frozenset(name.strip() for name in re.split("[|,]", text))
        return lambda subject: not names.isdisjoint(subject.split("/"))
    re2 = load_heavy_here("re2")
    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(text.encode("utf-8", "replace"), options)
    except re2.error as error:
        raise ValueError(
            f"the matcher {text[:80]!r} is not a regular expression of RE2's (which has no "
            "look-around, no back-references)"
        ) from error
    return lambda subject: expression.search(subject.encode("utf-8", "replace")) is not None


def _is_anything(_subject: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOptions:
    """How many run in the background at once, whether each failure stops the act, and if changed
    scripts wait.
    """

    concurrency: int = 8
    fails_closed: bool = False
    must_approve: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """`event` is our name, `words` the program and its arguments, `command` the same as a person
    wrote it, `files` are the scripts whose content is pinned. `blocks_on_failure` None: the general
    setting decides.
    """

    id: str
    event: str
    words: tuple[str, ...]
    command: str
    matcher: str | None = None
    matches: Callable[[str], bool] = field(default=_is_anything, compare=False)
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


def is_meant(hook: Hook, hook_event: HookEvent) -> bool:
    """A tool is meant by either name, a file by a name in its path."""
    subject, full_name = hook_event.subject, hook_event.data.get(FULL_NAME)
    names = [name for name in (subject, full_name) if isinstance(name, str)]
    return subject is None or any(map(hook.matches, names))
