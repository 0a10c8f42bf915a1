from __future__ import annotations

from parachuted.audit.reader import AuditEdge, AuditEntry, AuditFilter, draw, graph_of, source_name
from tests.audit.audit_rig import AuditRig, event


def seen(rig: AuditRig) -> list[AuditEntry]:
    return list(rig.reader.entries(AuditFilter()))


def test_the_picture_shows_who_called_whom_how_often_and_how_slowly(rig):
    note, agent = "/api/notes/{path}", {"source_type": "agent", "source_id": "curator"}
    failed = {"success": False, "error": "409"}
    rig.write(
        *(event(f"GET {note}", target_module="vault", duration_ms=10.0) for _ in range(47)),
        event(f"PATCH {note}", target_module="vault", duration_ms=230.0, **failed),
        event("GET /api/health", target_module="system"),
        event("agents.offline", event_type="agent_start", target_module="agents", **agent),
        event("agents.offline: changed", event_type="agent_end", target_module="agents", **agent),
        event("audit.removed", event_type="audit"),
    )

    assert draw(graph_of(seen(rig)), "the last day") == [
        "System activity, the last day: 50 events, 1 failed",
        "",
        "┌──────────────┐",
        "│ this machine │",
        "└┬─────────────┘",
        " ├──> vault        48  ████████████████████████, 1 failed",
        " │      mean 14.6 ms, slowest 230.0 ms: PATCH /api/notes/{path}",
        " └──> system        1  █",
        "",
        "┌───────────────┐",
        "│ agent curator │",
        "└┬──────────────┘",
        " └──> agents        1  █",
    ]
    assert draw([], "the last day")[-1] == "Nothing happened."


def test_a_stream_counts_but_is_in_no_mean(rig):
    rig.write(
        event("GET /api/notes", duration_ms=1.0),
        event("GET /api/events", duration_ms=3_600_000.0),
        event("GET /api/notes", duration_ms=3.0, success=False),
        event("GET /api/events", source_id="cli", duration_ms=5.0),
    )

    assert graph_of(seen(rig)) == [
        AuditEdge(
            source="this machine",
            module="system",
            count=3,
            failed=1,
            mean_ms=2.0,
            slowest_ms=3.0,
            slowest="GET /api/notes",
        ),
        AuditEdge(source="this machine (cli)", module="system", count=1),
    ]


def test_a_source_is_named_as_a_person_knows_it(rig):
    names = {
        ("local", "this machine"): "this machine",
        ("local", "cli"): "this machine (cli)",
        ("flutter_app", "this machine"): "the app",
        ("api_key", "phone"): "api key phone",
        ("person", "on disk"): "a person",
        ("agent", "curator"): "agent curator",
        ("api_key", "nobody"): "nobody",
    }
    rig.write(*(event(source_type=kind, source_id=name) for kind, name in names))

    assert [source_name(entry) for entry in seen(rig)][::-1] == list(names.values())
