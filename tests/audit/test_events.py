from __future__ import annotations

from parachuted.audit.chain import AuditEvent, NullAuditRecorder
from tests.audit.audit_rig import event

SPECIFIED = (
    "timestamp",
    "event_type",
    "source_type",
    "source_id",
    "target_module",
    "target_endpoint",
    "para_ids_involved",
    "duration_ms",
    "success",
    "error",
)


def test_an_event_begins_with_the_fields_of_the_specification_in_their_order():
    assert AuditEvent._fields[: len(SPECIFIED)] == SPECIFIED
    assert (event().success, event().error, event().para_ids_involved) == (True, None, ())


def test_who_keeps_nothing_takes_all_and_refuses_nothing():
    recorder = NullAuditRecorder()

    recorder.record(event())

    assert recorder.refusal is None
