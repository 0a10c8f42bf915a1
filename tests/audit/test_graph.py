from __future__ import annotations

from parachuted.audit.graph import document_of, draw, graph_of, source_name
from parachuted.audit.reader import AuditEntry, AuditFilter
from tests.audit.audit_rig import AuditRig, event


def seen(rig: AuditRig) -> list[AuditEntry]:
    return list(rig.reader.entries(AuditFilter()))


def test_the_picture_shows_who_called_whom_how_often_and_how_slowly(rig):
    rig.write(
        *(
            event("GET /api/notes/{path}", target_module="vault", duration_ms=10.0)
            for _ in range(47)
        ),
        event(
            "PATCH /api/notes/{path}",
            target_module="vault",
            duration_ms=230.0,
            success=False,
            error="409",
        ),
        event(
            "agents.offline",
            event_type="agent_start",
            source_type="agent",
            source_id="curator",
            target_module="agents",
        ),
        event(
            "agents.offline: changed",
            event_type="agent_end",
            source_type="agent",
            source_id="curator",
            target_module="agents",
        ),
        event(
            "curator.read_context",
            event_type="mcp_call",
            source_type="agent",
            source_id="curator",
            target_module="curator",
            duration_ms=2300,
        ),
        event("audit.removed", event_type="audit"),
    )

    picture = "\n".join(draw(graph_of(seen(rig)), "the last day"))

    assert picture.startswith("System activity, the last day: 50 events, 1 failed\n")
    assert "│ this machine │" in picture
    assert "└──> vault         48  ████████████████████████, 1 failed" in picture
    assert "GET /api/notes/{path} x47, PATCH /api/notes/{path} x1" in picture
    assert "mean 14.6 ms, slowest 230 ms: PATCH /api/notes/{path}" in picture
    assert "│ agent curator │" in picture
    assert "slowest 2.3 s: curator.read_context" in picture
    assert "agents" in picture
    assert "audit.removed" not in picture
    assert "  12:00:00  this machine: PATCH /api/notes/{path} -> 409 (230 ms)" in picture


def test_nothing_is_a_picture_too():
    assert draw(graph_of([]), "the last day") == [
        "System activity, the last day",
        "",
        "Nothing happened.",
    ]


def test_more_than_is_counted_is_said(rig):
    rig.write(*(event() for _ in range(20)))

    graph = graph_of(seen(rig), most=5)

    assert document_of(graph)["partial"]
    assert [edge["count"] for edge in document_of(graph)["edges"]] == [5]
    assert draw(graph, "x")[-1] == "(only the latest events were counted)"


def test_the_document_holds_what_the_picture_shows(rig):
    rig.write(event("a", duration_ms=1.0), event("b", duration_ms=3.0, success=False))

    assert document_of(graph_of(seen(rig))) == {
        "edges": [
            {
                "source": "this machine",
                "module": "system",
                "count": 2,
                "failed": 1,
                "mean_ms": 2.0,
                "slowest_ms": 3.0,
                "slowest": "b",
            }
        ],
        "partial": False,
    }


def test_a_stream_counts_but_lasts_as_long_as_it_is_read_so_it_is_in_no_mean(rig):
    rig.write(
        event("GET /api/notes", duration_ms=2.0), event("GET /api/events", duration_ms=3_600_000.0)
    )
    (edge,) = document_of(graph_of(seen(rig)))["edges"]
    rig.write(event("GET /api/events", source_id="cli", duration_ms=5.0))
    alone = document_of(graph_of(seen(rig)))["edges"][0]

    assert (edge["count"], edge["mean_ms"], edge["slowest_ms"], edge["slowest"]) == (
        2,
        2.0,
        2.0,
        "GET /api/notes",
    )
    assert (alone["count"], alone["mean_ms"], alone["slowest"]) == (1, 0.0, "")


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
