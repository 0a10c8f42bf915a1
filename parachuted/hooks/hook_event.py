"""Something that has happened or is about to, and the JSON object in which a hook receives it: our
fields, and beside them those that a script written for Claude Code reads. Pure.
"""

from __future__ import annotations

import json
import math
import os
import posixpath
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from types import MappingProxyType

from parachuted.events.catalog import CATALOG
from parachuted.texts.times import moment_text, time_of

CLAUDE_NAMES: Mapping[str, str] = MappingProxyType(
    {kind.name: kind.claude for kind in CATALOG.values() if kind.claude}
)
"""Our name -> Claude Code's, where both mean the same."""

FULL_NAME = "full_name"
"""The field of a tool event's data with the name that the model sees: `mcp__<server>__<tool>`."""

_SUBJECTS: Mapping[str, str | None] = {
    **dict.fromkeys(("tool.before", "tool.after"), "tool_name"),
    "session.start": "source",
    "session.end": "reason",
    "session.notification": "notification_type",
    **dict.fromkeys(("prompt.before", "stop.before")),
    "brain.mention.detected": "para_id",
    "hook.failed": "hook",
    "vault.problem": "subject",
}
_OF_MODULES = "module."
_NOT_CLAUDES = frozenset({"agent_id", "agent_type"})  # which Claude Code gives to subagents alone
_WHOLE_PATHS = ("entry_path", "output_path")
_PLACES = ("from", "entry_path", "audio_path", "output_path", "working_directory")
_DEEPEST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """What a hook receives. In `data`, `path` and `watcher` are relative to the vault; other paths
    are absolute.
    """

    event: str
    at: datetime
    data: Mapping[str, object]
    vault: Path
    module: str | None = None
    session_id: str | None = None
    cwd: str | Path | None = None
    cause: Mapping[str, object] | None = None
    diff: Mapping[str, object] | None = None

    @property
    def subject(self) -> str | None:
        """What a matcher is compared with; None: matchers do not apply."""
        if self.event in _SUBJECTS:
            value = self.data.get(_SUBJECTS[self.event] or "")
        elif self.event.startswith(_OF_MODULES):
            value = self.data.get("name", self.data.get("module"))
        else:
            value = self.data.get("path", self.data.get("watcher")) or _named_whole(self)
        return value if isinstance(value, str) else None

    @property
    def folder(self) -> Path:
        """Where its hooks run: the session's folder while it is there, else the vault."""
        return Path(self.cwd) if self.cwd is not None and Path(self.cwd).is_dir() else self.vault


def document(hook_event: HookEvent) -> dict[str, object]:
    """The JSON object for stdin, of nothing but what JSON has."""
    claude = CLAUDE_NAMES.get(hook_event.event)
    data = {str(name): _plain(value) for name, value in hook_event.data.items()}
    if "path" not in data and (named := _named_whole(hook_event)) is not None:
        data["path"] = named
    if isinstance(path := data.get("path"), str):
        data.setdefault("file_path", str(hook_event.vault / path))
    found: dict[str, object] = {
        "event": hook_event.event,
        "timestamp": time_of(hook_event.at, "milliseconds"),
        "vault_path": str(hook_event.vault),
        "module": hook_event.module,
        "data": data,
        "hook_event_name": claude or hook_event.event,
        "cwd": str(hook_event.folder),
    }
    if hook_event.session_id is not None or claude:
        found["session_id"] = hook_event.session_id or ""
    for name in ("cause", "diff"):
        if (value := getattr(hook_event, name)) is not None:
            found[name] = _plain(value)
    if claude or "transcript_path" in data:
        found["transcript_path"] = str(data.get("transcript_path") or os.devnull)
    if claude:  # whose scripts count on its fields beside these
        others = {name: value for name, value in data.items() if name not in _NOT_CLAUDES}
        found = {**others, **found}
    return found


def encode(found: Mapping[str, object]) -> bytes:
    """One line of UTF-8. A lone surrogate, as in a name that is no UTF-8, becomes its escape."""
    text = json.dumps(found, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def event_data(data: Mapping[str, object], vault: Path) -> dict[str, object]:
    """The same with whole paths, for scripts; `path` and `watcher` stay as the vault calls them."""
    found = dict(data)
    for name in _PLACES:
        if isinstance(place := found.get(name), str) and place:
            found[name] = posixpath.join(vault, place)
    if isinstance(places := found.get("paths"), list | tuple):
        found["paths"] = [posixpath.join(vault, str(place)) for place in places]
    return found


def cause_data(
    causes: Sequence[str],
    *,
    actor: str,
    run: str | None = None,
    root: str | None = None,
    depth: int | None = None,
) -> dict[str, object]:
    """What it followed from: the first cause, and the file that began it, if known. `depth` counts
    the agents between the person's act and this.
    """
    return {
        "id": causes[0] if causes else None,
        "root": root,
        "depth": depth if depth is not None else int(run is not None),
        "actor": actor,
        "run": run,
        "chain": list(causes),
    }


def module_of(actor: str) -> str | None:
    """The module that acts, where one does: it writes as `module:<name>`."""
    return actor.removeprefix("module:") if actor.startswith("module:") else None


def _named_whole(hook_event: HookEvent) -> str | None:
    """The vault's path of the file that the specification names by its whole path."""
    start = f"{hook_event.vault}/"
    for name in _WHOLE_PATHS:
        place = hook_event.data.get(name)
        if isinstance(place, str) and place.startswith(start):
            return place.removeprefix(start)
    return None


def _plain(value: object, depth: int = 0) -> object:
    if value is None or isinstance(value, bool | int | str | float):
        return None if isinstance(value, float) and not math.isfinite(value) else value
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return {str(name): _plain(part, depth + 1) for name, part in value.items()}
    if isinstance(value, list | tuple | AbstractSet):
        parts = sorted(value, key=str) if isinstance(value, AbstractSet) else value
        return [_plain(part, depth + 1) for part in parts]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return moment_text(value) if isinstance(value, date) else str(value)
