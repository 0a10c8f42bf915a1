from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from parachuted.audit.chain import MOST_LINE_BYTES
from parachuted.audit.reader import AuditFilter, moment_of
from tests.audit.audit_rig import NOON, AuditRig, event


def seqs(rig: AuditRig, **wanted: object) -> list[int]:
    return [found.seq for found in rig.reader.page(AuditFilter(**wanted), limit=1000).events]


def test_the_newest_come_first_over_all_days(rig):
    rig.fill(days=3, lines=4)

    assert seqs(rig) == list(range(12, 0, -1))


def test_pages_follow_one_another_without_gap_or_double(rig):
    rig.fill(days=3, lines=5)
    found, cursor = [], None
    while True:
        page = rig.reader.page(AuditFilter(), limit=4, before=cursor)
        found += [one.seq for one in page.events]
        if page.cursor is None:
            break
        cursor = int(page.cursor)

    assert found == list(range(15, 0, -1))


def test_what_is_rare_is_looked_for_in_pieces(rig):
    rig.write(event("rare"), *(event() for _ in range(50)))

    page = rig.reader.page(AuditFilter(success=False), limit=10, most=20)

    assert (page.events, page.cursor) == ([], "32")


def test_events_are_chosen_by_each_field(rig):
    rig.write(
        event("a", NOON - timedelta(days=1)),
        event("b", source_type="agent", source_id="curator", event_type="mcp_call"),
        event("c", success=False, error="no", target_module="vault"),
        event("d", paths=["Projects/garden/AGENTS.md"]),
        event("e", paths=["Projects/gardening.md"], source_type="api_key", source_id="phone"),
        event("f", NOON + timedelta(hours=1)),
    )

    assert seqs(rig, since=NOON) == [6, 5, 4, 3, 2]
    assert seqs(rig, until=NOON) == [1]
    assert seqs(rig, since=NOON, until=NOON + timedelta(minutes=1)) == [5, 4, 3, 2]
    assert seqs(rig, type="mcp_call") == [2]
    assert seqs(rig, source="agent") == seqs(rig, source="curator") == [2]
    assert seqs(rig, source="phone") == [5]
    assert seqs(rig, module="vault") == seqs(rig, success=False) == [3]
    assert seqs(rig, path="Projects/garden") == seqs(rig, path="Projects/garden/AGENTS.md") == [4]
    assert seqs(rig, path="Projects") == [5, 4]


def test_days_that_overlap_after_a_clock_was_set_are_woven(rig):
    tomorrow, today = NOON + timedelta(days=1), NOON
    rig.write(
        event(at=today),
        event(at=tomorrow),
        event(at=tomorrow),
        event(at=today),
        event(at=today),
        event(at=tomorrow),
    )

    assert seqs(rig) == [6, 5, 4, 3, 2, 1]
    assert rig.verdict().holds


def test_lines_longer_than_any_piece_that_is_read_are_whole(rig):
    rig.write(*(event(paths=[f"{number} {'日' * 500}.md"] * 20) for number in range(60)))

    assert seqs(rig) == list(range(60, 0, -1))


def test_what_is_not_a_line_is_passed_over(rig):
    rig.fill(days=1, lines=4)
    lines = rig.raw()
    rig.file().write_bytes(
        lines[0]
        + b"garbage\n\n"
        + lines[1]
        + b"\0" * 300_000
        + b"\n"
        + lines[2]
        + b"x" * MOST_LINE_BYTES
        + lines[3][:9]
    )

    assert seqs(rig) == [3, 2, 1] or seqs(rig) == [2, 1]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timestamp", None),
        ("paths", "no"),
        ("paths", [1, {}]),
        ("duration_ms", float("inf")),
        ("error", 7),
        ("status", "many"),
        ("details", {"a": {"b": [1] * 1000}}),
    ],
)
def test_foreign_json_in_a_file_is_passed_over(rig, field, value):
    rig.fill(days=1, lines=1)
    body = rig.lines()[0] | {"seq": 2, field: value}
    raw = json.dumps(body, separators=(",", ":")).encode()
    rig.file().write_bytes(raw + b"\n" + rig.raw()[0])

    assert seqs(rig) == [1]


def test_entries_after_a_number_are_those_that_came_since(rig):
    rig.fill(days=1, lines=4)
    log = rig.open()
    log.record(event("new"))
    log.record(event("later", NOON + timedelta(days=1)))
    assert log.flush()
    with rig.file("2026-11-23").open("ab") as file:
        file.write(b'{"seq":7,"times')

    def after(seq: int) -> list[str]:
        return [found.target_endpoint for found in rig.reader.entries(AuditFilter(), seq)]

    assert after(4) == ["later", "new"]
    assert after(6) == []


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", NOON - timedelta(seconds=90)),
        ("24h", NOON - timedelta(hours=24)),
        ("2w", NOON - timedelta(weeks=2)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_a_moment_may_be_said_in_several_ways(text, moment):
    assert moment_of(text, NOON) == moment


@pytest.mark.parametrize(
    "text", ["", "yesterday", "24", "999999w", "0001-01-01T00:00:00+10:00", "٢٤h", "24h\n"]
)
def test_what_is_not_a_moment_is_refused(text):
    with pytest.raises(ValueError, match="is not a time"):
        moment_of(text, NOON)
