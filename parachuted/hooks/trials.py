"""Runs hooks on a sample of an event, to show input, output and decision without further effect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from parachuted.errors import NotFoundError
from parachuted.events.catalog import CATALOG
from parachuted.hooks.decision import combine
from parachuted.hooks.hook import Hook, parse_event
from parachuted.hooks.hook_event import HookEvent, event_data
from parachuted.hooks.hooks import Hooks
from parachuted.hooks.matching import compile_hook
from parachuted.hooks.run_recorder import HookRunRecord

_NOTE = "Projects/garden/AGENTS.md"
_VALUES: Mapping[str, object] = MappingProxyType(
    {
        "watcher": "Projects/AGENTS.md",
        "actor": "person",
        "sections": ["Current Focus"],
        "content": "Talked to Ada about the tomatoes in the garden.",
        "entry_path": "Daily/entries/2026-01-06-120000.md",
        "para_id": "para:brain:a1b2c3d4e5f6",
        "session_id": "0b8e7f52-6f0e-4d43-9d3a-1f1f5a1c2d3e",
        "tool_name": "update_context",
        "tool_input": {"file_path": _NOTE, "section": "Current Focus", "content": "- sow"},
        "tool_response": [{"type": "text", "text": "Changed."}],
        "frontmatter": {},
        "by": "person",
        "operation": "ReplaceSection",
        "base": "4d1f" * 16,
        "digest": "a07c" * 16,
        "hash": "a07c" * 16,
        "patterns": ["Projects/*"],
        "problems": [],
        "unmatched": [],
        "task": "t-20260106-1",
        "due": "2026-01-06T12:00:02.000Z",
        "outcome": "changed",
        "status": "approved",
        "reason": "updated AGENTS.md",
        "runs": ["r-20260106-1"],
        "kept": {_NOTE: ["the section has been edited since"]},
        "session": "0b8e7f52-6f0e-4d43-9d3a-1f1f5a1c2d3e",
        "message": "May I run git?",
        "prompt": "Where do the beans go?",
        "last_assistant_message": "In the sun.",
        "message_id": "twdv8i5e5cve",
        "role": "user",
        "tool_use_id": "toolu_01",
        "name": "garden",
        "version": "1.0.0",
        "error": "it took too long",
        "module": "chat",
        "source": "parachute",
        "date": "2026-01-06",
        "action": "create",
        "target_module": "brain",
        "hook": "on-write-before.py",
        "event": "write.before",
        "id": "s5db99a5df2",
        "what": "git push",
        "notification_type": "permission_prompt",
        "until": "2026-01-06T12:01:00.000Z",
        "working_directory": "Projects/garden",
        **dict.fromkeys(("from", "run", "key", "applied_run", "audio_path", "custom_instructions")),
    }
)
"""What a field of an event's data holds in a sample; any other, by its kind."""

_BY_KIND: Mapping[str, object] = MappingProxyType(
    {"path": _NOTE, "paths": [_NOTE], "ids": ["c-20260106-1"], "number": 12, "flag": False}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTrial:
    """`allowed`: whether the act would go on; `passed_over`: hooks whose matcher did not match."""

    event: str
    allowed: bool
    runs: list[HookRunRecord]
    passed_over: list[str]


def make_sample(
    event: str, *, vault: Path, at: datetime, values: Mapping[str, object] | None = None
) -> HookEvent:
    """A sample of that event, by our name. `values`: some of its data, or a whole object such as
    hooks read on stdin, of which `data` counts.
    """
    own = values or {}
    own = nested if isinstance(nested := own.get("data"), Mapping) else own
    fields = CATALOG[event].fields if event in CATALOG else {}
    sample = {
        name: _VALUES.get(name, _BY_KIND.get(kind, f"a {name}")) for name, kind in fields.items()
    }
    data = event_data({**sample, **own}, vault)
    session = data.get("session_id")
    return HookEvent(
        event=event,
        at=at,
        data=data,
        vault=vault,
        session_id=session if isinstance(session, str) else None,
    )


async def try_hooks(
    hooks: Hooks,
    event: str,
    *,
    vault: Path,
    at: datetime,
    values: Mapping[str, object] | None = None,
    only: str | None = None,
) -> HookTrial:
    """Run the hooks that match, or the one called `only` whatever its matcher. NotFoundError."""
    name = parse_event(event)
    hook_event = make_sample(name, vault=vault, at=at, values=values)
    declared = [hook for hook in hooks.declared if hook.event == name]
    if only is not None and only not in {hook.id for hook in declared}:
        raise NotFoundError(f"there is no hook {only[:80]!r} for {name}")
    chosen = [
        hook
        for hook in declared
        if hook.id == only or (only is None and _is_meant(hook, hook_event))
    ]
    ran = await asyncio.gather(*(hooks.run_one(hook.id, hook_event) for hook in chosen))
    awaited = [answer for hook, (answer, _) in zip(chosen, ran, strict=True) if not hook.is_async]
    return HookTrial(
        event=name,
        allowed=combine(name, awaited).allowed,
        runs=[record for _, record in ran],
        passed_over=[hook.id for hook in declared if only is None and hook not in chosen],
    )


def _is_meant(hook: Hook, hook_event: HookEvent) -> bool:
    try:
        return compile_hook(hook)(hook_event)
    except ValueError:
        return False
