"""Sample data for any event, to try hooks before the event happens.

Values that are passed in replace the invented ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from parachuted.events.catalog import CATALOG
from parachuted.hooks.hook_event import HookEvent
from parachuted.hooks.told import event_data

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

VALUES: Mapping[str, object] = MappingProxyType(
    {
        "action": "update",
        "actor": "person",
        "agent": "reflection",
        "answer": "once",
        "applied_run": None,
        "audio_path": None,
        "backend": "offline",
        "base": "sha256:" + "4" * 64,
        "budget": "runs_per_hour",
        "by": "person",
        "causes": ["c-20260106-1"],
        "confidence": 0.92,
        "content": "Talked to Ada about the tomatoes in the garden.",
        "cost_usd": 0.0123,
        "custom_instructions": None,
        "date": "2026-01-06",
        "digest": _DIGEST,
        "due": "2026-01-06T12:00:02Z",
        "duration": 184.5,
        "duration_ms": 12,
        "entry_id": "2026-01-06-120000",
        "entry_path": "Daily/entries/2026-01-06-120000.md",
        "error": "ended with 1: no such file",
        "event": "session.start",
        "frontmatter": {},
        "from": "Projects/old/AGENTS.md",
        "hash": _DIGEST,
        "hook": "on-session-start.py",
        "id": "p-5f0c9a1e",
        "kept": [],
        "kind": "read",
        "last_assistant_message": "The garden's page is up to date.",
        "limit": 20,
        "message_count": 8,
        "message_id": "m-8",
        "module": "chat",
        "most_cost_usd": 0.25,
        "name": "daily",
        "operation": "edit",
        "outcome": "changed",
        "output_path": "Daily/reflections/2026-01-06.md",
        "para_id": "para:brain:a1b2c3d4e5f6",
        "path": _NOTE,
        "paths": [_NOTE],
        "patterns": ["Projects/garden/**"],
        "problem": "others may change hooks.yaml",
        "problems": [],
        "prompt": "What is there to do in the garden?",
        "reason": "the tomatoes are planted",
        "resolved_by": "user",
        "role": "user",
        "run": None,
        "runs": ["r-20260106-1"],
        "sections": ["Current Focus"],
        "session": _SESSION,
        "session_id": _SESSION,
        "source": "app",
        "source_agent": "reflection",
        "source_id": "2026-01-06-120000",
        "status": "completed",
        "stop_hook_active": False,
        "subject": "hooks:files",
        "target_module": "vault",
        "task": "t-20260106-1",
        "threshold": 0.8,
        "title": "The garden",
        "token_count": 160_000,
        "tool_input": {
            "file_path": _NOTE,
            "section": "Current Focus",
            "content": "- plant the tomatoes out",
        },
        "tool_name": "update_context",
        "tool_response": [{"type": "text", "text": "Changed."}],
        "tool_use_id": "toolu_01",
        "trigger": "auto",
        "undo": "r-20260106-120205-114-77d0c3ab",
        "unmatched": [],
        "until": "2026-01-06T12:01:00Z",
        "version": "1.0.0",
        "watcher": "Projects/AGENTS.md",
        "what": "Projects/garden/plan.md",
        "why": "the plan is named in the page",
        "working_directory": "Projects/garden",
    }
)
"""What a field of an event's data holds in a sample."""

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
        {**{name: VALUES[name] for name in fields}, **_OF_EVENT.get(event, {}), **own}, vault
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
