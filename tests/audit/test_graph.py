from __future__ import annotations

from parachuted.audit.graph import document_of, draw, graph_of, source_name
from parachuted.audit.reader import AuditEntry, AuditFilter
from tests.audit.audit_rig import AuditRig, event


def seen(rig: AuditRig) -> list[AuditEntry]:
    return list(rig.reader.entries(AuditFilter()))


def test_the_picture_shows_who_called_whom_how_often_and_how_slowly(rig):
    note, agent = "/api/notes/{path}", {"source_type": "agent", "source_id": "curator"}
    failed = {"success": False, "error": "409"}
    rig.write(
        *(event(f"GET {note}", target_module="vault", duration_ms=10.0) for _ in range(47)),
        event(f"PATCH {note}", target_module="vault", duration_ms=230.0, **failed),
        event("agents.offline", event_type="agent_start", target_module="agents", **agent),
        event("agents.offline: changed", event_type="agent_end", target_module="agents", **agent),
        event("curator.read_context", target_module="curator", duration_ms=2300, **agent),
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
    picture = draw(graph_of([]), "the last day")
    assert picture == ["System activity, the last day", "", "Nothing happened."]


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


def test_a_stream_counts_but_is_in_no_mean(rig):
    rig.write(
        event("GET /api/notes", duration_ms=2.0),
        event("GET /api/events", duration_ms=3_600_000.0),
        event("GET /api/events", source_id="cli", duration_ms=5.0),
    )

    edges = document_of(graph_of(seen(rig)))["edges"]
    found = {edge["source"]: (edge["count"], edge["mean_ms"], edge["slowest"]) for edge in edges}
    assert found == {
        "this machine": (2, 2.0, "GET /api/notes"),
        "this machine (cli)": (1, 0.0, ""),
    }


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
