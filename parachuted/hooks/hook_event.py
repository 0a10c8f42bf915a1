"""Something that has happened or is about to, and the JSON object in which a hook receives it.
Pure.

The object carries our fields, and beside them those that a script written for Claude Code reads.
"""

from __future__ import annotations

import json
import math
import os
import posixpath
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from parachuted.access.authority import NO_AUTHORITY, Authority
from parachuted.hooks.hook import claude_name
from parachuted.times import moment_text

_COMMON = (
    "prompt_id",
    "permission_mode",
    "effort",
)  # no `agent_id`, which Claude Code gives to subagents alone; `data` has it
_TOOL = ("tool_name", "tool_input", "tool_use_id", "mcp_server")
_CLAUDE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "tool.before": _TOOL,
    "tool.after": (*_TOOL, "tool_response", "duration_ms"),
    "tool.failed": (*_TOOL, "error", "is_interrupt", "duration_ms"),
    "prompt.before": ("prompt", "source", "session_title"),
    "session.start": (
        "source",
        "model",
        "session_title",
        "seconds_since_last_response",
        "context_tokens",
        "prompt_cache_likely_expired",
        "estimated_cache_write_usd",
    ),
    "session.end": ("reason",),
    "session.notification": ("message", "title", "notification_type"),
    "stop.before": (
        "stop_hook_active",
        "last_assistant_message",
        "background_tasks",
        "session_crons",
    ),
    "compact.before": ("trigger", "custom_instructions"),
}
_ALWAYS: Mapping[str, Mapping[str, object]] = {
    "tool.before": {"tool_name": "", "tool_input": {}, "tool_use_id": ""},
    "tool.after": {"tool_name": "", "tool_input": {}, "tool_use_id": "", "tool_response": None},
    "tool.failed": {
        "tool_name": "",
        "tool_input": {},
        "tool_use_id": "",
        "error": "",
        "is_interrupt": False,
    },
    "prompt.before": {"prompt": ""},
    "session.start": {"source": "startup"},
    "session.end": {"reason": "other"},
    "session.notification": {"message": "", "notification_type": ""},
    "stop.before": {"stop_hook_active": False},
    "compact.before": {"trigger": "auto", "custom_instructions": None},
}
_SUBJECTS: Mapping[str, str | None] = {
    "tool.before": "tool_name",
    "tool.after": "tool_name",
    "tool.failed": "tool_name",
    "session.start": "source",
    "session.end": "reason",
    "session.notification": "notification_type",
    "compact.before": "trigger",
    "prompt.before": None,
    "stop.before": None,
    "bubble.before": "watcher",
    "module.load.before": "name",
    "brain.mention.detected": "para_id",
    "hook.failed": "hook",
    "vault.problem": "subject",
}
_WHOLE_PATHS = ("entry_path", "output_path")
_OF_MODULES = "module."
_DEEPEST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """What a hook receives.

    In `data`, `path` and `watcher` are relative to the vault; other paths are absolute. `authority`
    is what a module that takes part acts with; programs are not given it.
    """

    event: str
    at: datetime
    data: Mapping[str, object]
    vault: Path
    module: str | None = None
    session_id: str | None = None
    transcript_path: str | Path | None = None
    cwd: str | Path | None = None
    cause: Mapping[str, object] | None = None
    diff: Mapping[str, object] | None = None
    budget: Mapping[str, object] | None = None
    authority: Authority = NO_AUTHORITY

    @property
    def subject(self) -> str | None:
        """What a matcher is compared with; None if the event has no subject and matchers do not
        apply.
        """
        if self.event in _SUBJECTS:
            field = _SUBJECTS[self.event]
            value = (
                None
                if field is None
                else self.data.get(field, _ALWAYS.get(self.event, {}).get(field))
            )
        elif self.event.startswith(_OF_MODULES):
            value = self.data.get("name", self.data.get("module"))
        else:
            value = self.path
        return value if isinstance(value, str) else None

    @property
    def path(self) -> str | None:
        value = self.data.get("path", self.data.get("watcher"))
        return value if isinstance(value, str) else _named_whole(self.data, self.vault)

    @property
    def folder(self) -> Path:
        """Where its hooks run: the session's folder while it is there, else the vault."""
        return Path(self.cwd) if self.cwd is not None and Path(self.cwd).is_dir() else self.vault


def document(hook_event: HookEvent) -> dict[str, object]:
    """The JSON object for stdin, of nothing but what JSON has."""
    data = _data(hook_event)
    found: dict[str, object] = {
        "event": hook_event.event,
        "timestamp": hook_event.at.astimezone(UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z"),
        "vault_path": str(hook_event.vault),
        "module": hook_event.module,
        "data": data,
        "hook_event_name": claude_name(hook_event.event) or hook_event.event,
        "cwd": str(hook_event.folder),
    }
    session, transcript = hook_event.session_id, hook_event.transcript_path
    if session is not None or claude_name(
        hook_event.event
    ):  # a script of Claude Code's counts on them
        found["session_id"] = session or ""
    if transcript is not None or claude_name(hook_event.event):
        found["transcript_path"] = str(transcript or os.devnull)
    for name in ("cause", "diff", "budget"):
        if (value := getattr(hook_event, name)) is not None:
            found[name] = _plain(value)
    return found | _claude_fields(hook_event.event, data)


def encode(found: Mapping[str, object]) -> bytes:
    """The object as hooks read it: one line of UTF-8.

    A lone surrogate, as in a name that is not UTF-8, becomes its JSON escape.
    """
    return (
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")
        + b"\n"
    )


def _data(hook_event: HookEvent) -> dict[str, object]:
    data = {str(name): _plain(value) for name, value in hook_event.data.items()}
    if "path" not in data and (named := _named_whole(data, hook_event.vault)) is not None:
        data["path"] = named
    path = data.get("path")
    if isinstance(path, str):
        data.setdefault("file_path", str(hook_event.vault / path))
    return data


def _named_whole(data: Mapping[str, object], vault: Path) -> str | None:
    """The vault's path of the file that the specification names by its whole path."""
    for name in _WHOLE_PATHS:
        place = data.get(name)
        if isinstance(place, str) and place.startswith(f"{vault}/"):
            return place[len(str(vault)) + 1 :]
    return None


def _claude_fields(event: str, data: Mapping[str, object]) -> dict[str, object]:
    if event not in _CLAUDE_FIELDS:
        return {}
    known = {name: data[name] for name in (*_CLAUDE_FIELDS[event], *_COMMON) if name in data}
    return {**_ALWAYS.get(event, {}), **known}


def _plain(value: object, depth: int = 0) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return {str(name): _plain(held, depth + 1) for name, held in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((_plain(held, depth + 1) for held in value), key=str)
    return (
        [_plain(held, depth + 1) for held in value]
        if isinstance(value, list | tuple)
        else _plain_scalar(value)
    )


def _plain_scalar(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return moment_text(value) if isinstance(value, date) else str(value)


_PLACES = ("from", "entry_path", "audio_path", "output_path", "working_directory")
_LISTS = ("paths",)


def event_data(data: Mapping[str, object], vault: Path) -> dict[str, object]:
    """The same with whole paths, as a script can use them; `path` and `watcher` stay as they are
    called in the vault.
    """
    found = dict(data)
    for name in _PLACES:
        if isinstance(place := found.get(name), str) and place:
            found[name] = _whole(place, vault)
    for name in _LISTS:
        if isinstance(places := found.get(name), list | tuple):
            found[name] = [
                _whole(place, vault) if isinstance(place, str) else place for place in places
            ]
    return found


def cause_data(
    causes: Sequence[str],
    *,
    actor: str,
    run: str | None = None,
    root: str | None = None,
    depth: int | None = None,
) -> dict[str, object]:
    """What it followed from.

    `id` and `root` are of the first cause and of the file that began it, where that is known.

    `depth` counts the agents between the person's act and this: 0 is the act itself.
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


def _whole(place: str, vault: Path) -> str:
    return posixpath.join(vault, place)
