"""Audit events: what was done, by whom, as one event each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

from parachuted.vault import SourceType

EventType: TypeAlias = Literal[
    "api_call",
    "mcp_call",
    "module_call",
    "agent_start",
    "agent_end",
    "suggestion",
    "write",
    "audit",
]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)


class AuditEvent(NamedTuple):
    """One thing that happened: first the fields of the specification, then ours.

    `duration_ms` is in milliseconds, `paths` are of the vault, `names` the values of a route's
    placeholders, `before` and `after` digests of a write, `write` the number of its record in the
    history. A named tuple, because one is made for each call.
    """

    timestamp: datetime
    event_type: EventType
    source_type: SourceType
    source_id: str
    target_module: str
    target_endpoint: str
    para_ids_involved: Sequence[str] = ()
    duration_ms: float = 0.0
    success: bool = True
    error: str | None = None
    request_id: str | None = None
    status: int | None = None
    paths: Sequence[str] = ()
    names: Sequence[str] = ()
    causes: Sequence[str] = ()
    run: str | None = None
    before: str | None = None
    after: str | None = None
    write: int | None = None
    details: Mapping[str, str | int | bool] | None = None


class AuditRecorder(Protocol):
    """Takes audit events, from any thread. Never blocks and never raises."""

    refusal: str | None
    """Why nothing may be changed just now, since it could not be recorded; None while it can."""

    def record(self, event: AuditEvent) -> None:
        """Keep one."""


class NullAuditRecorder:
    refusal: str | None = None

    def record(self, event: AuditEvent) -> None:
        """Let it go."""
