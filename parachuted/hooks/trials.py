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
from parachuted.hooks.hook import parse_event
from parachuted.hooks.hook_event import HookEvent, event_data
from parachuted.hooks.hooks import Hooks
from parachuted.hooks.records import HookRunRecord

_NOTE = "Projects/garden/AGENTS.md"
_SESSION = "0b8e7f52-6f0e-4d43-9d3a-1f1f5a1c2d3e"
_VALUES: Mapping[str, object] = MappingProxyType(
    {
        "actor": "person",
        "by": "person",
        "sections": ["Current Focus"],
        "entry_path": "Daily/entries/2026-01-06-120000.md",
        "session_id": _SESSION,
        "session": _SESSION,
        "tool_name": "update_context",
        "tool_input": {"file_path": _NOTE, "section": "Current Focus", "content": "- sow"},
        "tool_response": [{"type": "text", "text": "Changed."}],
        "frontmatter": {},
        "operation": "ReplaceSection",
        **dict.fromkeys(("base", "digest", "hash"), "a07c" * 16),
        "notification_type": "permission_prompt",
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
    named = [hook for hook in declared if hook.id == only]
    if only is not None and not named:
        raise NotFoundError(f"there is no hook {only[:80]!r} for {name}")
    chosen = hooks.meant_for(hook_event) if only is None else named
    ran = await asyncio.gather(*(hooks.run_one(hook, hook_event) for hook in chosen))
    awaited = [answer for hook, (answer, _) in zip(chosen, ran, strict=True) if not hook.is_async]
    return HookTrial(
        event=name,
        allowed=combine(name, awaited).allowed,
        runs=[record for _, record in ran],
        passed_over=[hook.id for hook in declared if only is None and hook not in chosen],
    )
