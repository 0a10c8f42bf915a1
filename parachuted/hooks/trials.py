"""Runs hooks on a sample of an event, to show their input, output and decision before the event
happens and without further effect. Values that are passed in replace the sample's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.events.catalog import CATALOG
from parachuted.hooks.decision import combine
from parachuted.hooks.hook import Hook, parse_event
from parachuted.hooks.hook_event import HookEvent, event_data
from parachuted.hooks.hooks import Hooks
from parachuted.hooks.matching import compile_hook
from parachuted.hooks.run_recorder import HookRunRecord

_NOTE = "Projects/garden/AGENTS.md"
_DIGEST = "sha256:" + "5" * 64
_SESSION = "0b8e7f52-6f0e-4d43-9d3a-1f1f5a1c2d3e"
_OF_THE_DOCUMENT: Mapping[str, type] = MappingProxyType(
    {
        "session_id": str,
        "transcript_path": str,
        "cwd": str,
        "module": str,
        "cause": Mapping,
        "diff": Mapping,
        "budget": Mapping,
    }
)

_NUMBERS: Mapping[str, float] = MappingProxyType(
    {
        "confidence": 0.92,
        "cost_usd": 0.0123,
        "duration": 184.5,
        "duration_ms": 12,
        "limit": 20,
        "message_count": 8,
        "most_cost_usd": 0.25,
        "threshold": 0.8,
        "token_count": 160_000,
    }
)
_VALUES: Mapping[str, object] = MappingProxyType(
    {
        **_NUMBERS,
        **dict.fromkeys(("path", "what"), _NOTE),
        **dict.fromkeys(("base", "digest", "hash"), _DIGEST),
        **dict.fromkeys(("session", "session_id"), _SESSION),
        **dict.fromkeys(("applied_run", "audio_path", "custom_instructions", "key", "run")),
        "actor": "person",
        "causes": ["c-20260106-1"],
        "content": "Talked to Ada about the tomatoes in the garden.",
        "date": "2026-01-06",
        "due": "2026-01-06T12:00:02Z",
        "entry_path": "Daily/entries/2026-01-06-120000.md",
        "frontmatter": {},
        "from": "Projects/old/AGENTS.md",
        "kept": [],
        "operation": "edit",
        "output_path": "Daily/reflections/2026-01-06.md",
        "para_id": "para:brain:a1b2c3d4e5f6",
        "paths": [_NOTE],
        "patterns": ["Projects/garden/**"],
        "problems": [],
        "prompt": "What is there to do in the garden?",
        "runs": ["r-20260106-1"],
        "sections": ["Current Focus"],
        "stop_hook_active": False,
        "tool_input": {"file_path": _NOTE, "section": "Current Focus", "content": "- sow"},
        "tool_name": "update_context",
        "tool_response": [{"type": "text", "text": "Changed."}],
        "unmatched": [],
        "until": "2026-01-06T12:01:00Z",
        "watcher": "Projects/AGENTS.md",
        "working_directory": "Projects/garden",
    }
)
"""What a field of an event's data holds in a sample; any other, a text that names the field."""

_OF_EVENT: Mapping[str, Mapping[str, object]] = MappingProxyType({"write.before": {"from": None}})


def make_sample(
    event: str, *, vault: Path, at: datetime, given: Mapping[str, object] | None = None
) -> HookEvent:
    """A sample of that event, by our name.

    `given`: some of its data, or a whole object such as hooks read on stdin. Raises ValueError if
    that object is invalid.
    """
    document = given or {}
    whole = isinstance(document.get("data"), Mapping)
    own = cast("Mapping[str, object]", document["data"] if whole else document)
    fields = CATALOG[event].fields if event in CATALOG else ()
    data = event_data(
        {
            **{name: _VALUES.get(name, f"a {name}") for name in fields},
            **_OF_EVENT.get(event, {}),
            **own,
        },
        vault,
    )
    more = _more(document) if whole else {}
    session = data.get("session_id")
    if isinstance(session, str):
        more.setdefault("session_id", session)
    return HookEvent(event=event, at=at, data=data, vault=vault, **more)


def _more(document: Mapping[str, object]) -> dict[str, Any]:
    found = {name: value for name in _OF_THE_DOCUMENT if (value := document.get(name)) is not None}
    for name, value in found.items():
        if not isinstance(value, _OF_THE_DOCUMENT[name]):
            raise ValueError(  # noqa: TRY004  a caller's
                f"{name} should be {'a text' if _OF_THE_DOCUMENT[name] is str else 'an object'}"
            )
    return found


class HookTrialError(ParachuteError):
    """There is nothing that could be tried so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTrial:
    """The result.

    `allowed`: whether the action would go on; `passed_over`: the hooks whose matcher did not match.
    """

    event: str
    allowed: bool
    runs: tuple[HookRunRecord, ...]
    passed_over: tuple[str, ...]


async def try_hooks(
    hooks: Hooks,
    event: str,
    *,
    vault: Path,
    at: datetime,
    given: Mapping[str, object] | None = None,
    only: str | None = None,
) -> HookTrial:
    """Run the hooks that match an `event`, or the one called `only` whatever its matcher.

    Raises HookTrialError for an invalid event or data, and NotFoundError for an unknown hook.
    """
    try:
        name = parse_event(event)
        hook_event = make_sample(name, vault=vault, at=at, given=given)
    except ValueError as error:  # UnknownEventError is one
        raise HookTrialError(str(error)) from error
    declared = [listed.hook for listed in hooks.listed if listed.hook.event == name]
    if only is not None and only not in {hook.id for hook in declared}:
        raise NotFoundError(
            f"there is no hook {only[:80]!r} for {name}; `parachute hooks list` shows them"
        )
    chosen = [
        hook for hook in declared if hook.id == only or (only is None and _means(hook, hook_event))
    ]
    ran = await asyncio.gather(*(hooks.run_one(hook.id, hook_event) for hook in chosen))
    waited_for = [
        answer for hook, (answer, _) in zip(chosen, ran, strict=True) if not hook.is_async
    ]
    passed_over = (
        () if only is not None else tuple(hook.id for hook in declared if hook not in chosen)
    )
    allowed = combine(name, waited_for).allowed
    return HookTrial(
        event=name,
        allowed=allowed,
        runs=tuple(record for _, record in ran),
        passed_over=passed_over,
    )


def _means(hook: Hook, hook_event: HookEvent) -> bool:
    try:
        return compile_hook(hook)(hook_event)
    except ValueError:
        return False
