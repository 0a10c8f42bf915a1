"""Audit documents: the shapes of the audit's answers."""

from __future__ import annotations

from typing_extensions import TypedDict

from parachuted.times import Time


class AuditLineResponse(TypedDict):
    """One event, in the fields of the specification, then ours.

    `duration_ms` is in milliseconds, `timestamp` in UTC.
    """

    seq: int
    timestamp: Time
    event_type: str
    source_type: str
    source_id: str
    target_module: str
    target_endpoint: str
    para_ids_involved: list[str]
    duration_ms: float
    success: bool
    error: str | None
    request_id: str | None
    status: int | None
    paths: list[str]
    names: list[str]
    causes: list[str]
    run: str | None
    before: str | None
    after: str | None
    details: dict[str, str | int | bool]
    hash: str


class AuditPageResponse(TypedDict):
    """Events, the newest first.

    `cursor`: what to give to get those before them, None when there are none.
    """

    events: list[AuditLineResponse]
    count: int
    cursor: str | None


class AuditVerificationResponse(TypedDict):
    """Whether the chain holds.

    `findings`: what must not be, and where; `notes`: what is known of, such as a cut by a kill.
    """

    holds: bool
    lines: int
    days: int
    last_seq: int
    last_hash: str
    findings: list[str]
    notes: list[str]
