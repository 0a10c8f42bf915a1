from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.audit.chain import EVENT_TYPES
from parachuted.testing import ScriptedBackend, use
from tests.api.calls import ELSEWHERE, call, code, expect, get, key_of, post, refused, spoken
from tests.mcp import peers
from tests.stories.daemon_rig import DaemonRig, Live, note, save

CANARIES = (
    "para_CanaryCanaryCanaryCanaryCanary12",
    "sk-ant-api03-canarycanarycanary",
    "canary-of-a-query",
    "canary-of-a-body",
    "canary-of-a-header",
    "canary-of-a-cookie",
)


@pytest.fixture
def daemon_rig(own_daemon: DaemonRig) -> DaemonRig:
    """Calls of other tests would be among its lines."""
    return own_daemon


async def audited(daemon_rig: DaemonRig, **wanted: object) -> list[dict]:
    """The newest first, without the calls for them."""
    query = "&".join(f"{name}={value}" for name, value in wanted.items())
    events = (await get(daemon_rig, f"/api/audit?{query}"))["events"]
    return [event for event in events if not event["target_endpoint"].startswith("GET /api/audit")]


def lines(vault: Path) -> Iterator[dict]:
    for day in sorted((vault / ".parachute/audit").glob("*.jsonl")):
        for line in day.read_bytes().splitlines():
            yield json.loads(line)


async def test_a_call_is_a_line_with_its_route_and_what_became_of_it(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", note("A"))
    await get(daemon_rig, "/api/health?detailed=true")
    await get(daemon_rig, "/api/notes/a.md")
    dart = {"User-Agent": "Dart/3.5 (dart:io)"}
    await expect(daemon_rig, 404, "GET", "/api/runs/r-none", headers=dart)
    runs, notes, health = await audited(daemon_rig, type="api_call")

    assert health["duration_ms"] > 0
    where = {"target_endpoint": "GET /api/health", "target_module": "system"}
    how = {"source_type": "local", "success": True, "status": 200, "error": None}
    assert health == health | where | how
    assert (notes["target_endpoint"], notes["paths"]) == ("GET /api/notes/{path}", ["a.md"])
    why = {"status": 404, "error": "What was asked for does not exist.", "success": False}
    assert runs == runs | why | {"source_type": "flutter_app", "names": ["id=r-none"]}


async def test_calls_that_are_refused_are_lines_too(daemon_rig: DaemonRig):
    wrong, evil = {"X-API-Key": CANARIES[0], **ELSEWHERE}, {"Origin": "http://evil.example"}
    answer = await expect(daemon_rig, 401, "GET", "/api/watches", headers=ELSEWHERE)
    await expect(daemon_rig, 401, "GET", "/api/watches", headers=wrong)
    await expect(daemon_rig, 403, "POST", "/api/pause", headers=key_of(daemon_rig, "vault:read"))
    await expect(daemon_rig, 404, "GET", "/api/nothing?x=1")
    await expect(daemon_rig, 403, "GET", "/api/watches", headers=evil)
    origin, unknown, scope, wrong, nobody = await audited(daemon_rig, success="false")

    who = {"source_id": "nobody", "names": ["peer=127.0.0.1"]}
    asked = {"target_endpoint": "GET /api/watches", "request_id": answer["request_id"]}
    assert nobody == nobody | who | asked | {"status": 401}
    assert (wrong["status"], wrong["source_id"]) == (401, "nobody")
    who = {"source_type": "api_key", "source_id": "a test's"}
    assert scope == scope | who | {"status": 403, "target_endpoint": "POST /api/pause"}
    asked = {"target_endpoint": "GET (no such call)", "target_module": ""}
    assert unknown == unknown | asked | {"status": 404, "error": "answered 404"}
    assert (origin["status"], origin["error"]) == (403, "answered 403")


async def test_a_run_is_reported_whole_and_has_the_cause_of_the_save(live: Live, vault):
    save(vault / "AGENTS.md", note("All", watch=["a.md"]))
    save(vault / "a.md", note("A"))
    backend = ScriptedBackend(
        [
            use("read_context", file_path="a.md"),
            use("read_context", file_path="../secret"),
            use("no_such_tool", file_path="a.md"),
            use("update_context", file_path="AGENTS.md", section="Facts", content="- new"),
        ]
    )
    async with live(backend) as daemon_rig:
        save(vault / "a.md", note("A", focus="- changed"))
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        await daemon_rig.settled()
        (run,) = {data["run"] for data in daemon_rig.reported("run.finished")}
        events = (await audited(daemon_rig, limit=500))[::-1]
        (person,) = await audited(daemon_rig, source="person")

    events = [event for event in events if event["run"] == run]
    fields = ("event_type", "target_endpoint", "success", "paths")
    started, *reported, ended = (tuple(event[field] for field in fields) for event in events)
    assert started == ("agent_start", "agents.scripted", True, ["AGENTS.md"])
    assert ended == ("agent_end", "agents.scripted: changed", True, ["AGENTS.md"])
    assert sorted(reported) == [
        ("mcp_call", "curator.read_context", False, ["../secret"]),
        ("mcp_call", "curator.read_context", True, ["a.md"]),
        ("mcp_call", "curator.update_context", True, ["AGENTS.md"]),
        ("write", "vault.ReplaceSection", True, ["AGENTS.md"]),
    ]
    who = {(event["source_type"], event["source_id"], *event["causes"]) for event in events}
    ((kind, name, *causes),) = who
    assert (kind, name) == ("agent", "curator")
    assert (person["paths"], person["target_endpoint"]) == (["a.md"], "vault.modified")
    assert len(person["before"]) == len(person["after"]) == 64
    assert {*person["causes"]} <= {*causes}


async def test_a_write_over_the_api_is_a_line_with_its_caller_and_request(daemon_rig: DaemonRig):
    headers = {**key_of(daemon_rig, "vault:read,write"), "Content-Type": "text/markdown"}
    new = "/api/notes/new.md"
    await expect(daemon_rig, 201, "PUT", new, data=b"# New\n", headers=headers)
    await daemon_rig.settled()
    (write,) = await audited(daemon_rig, type="write")
    (asked,) = await audited(daemon_rig, type="api_call", source="a test's")

    assert write == write | {"source_type": "api_key", "source_id": "a test's", "paths": ["new.md"]}
    assert write["request_id"] == asked["request_id"]


async def test_no_secret_that_was_sent_is_in_any_file_of_the_audit(live: Live, vault):
    key, model, query, body, header, cookie = CANARIES
    async with live() as daemon_rig:
        shown = key_of(daemon_rig, "vault:read")["Authorization"]
        for method, path, headers in (
            (
                "GET",
                f"/api/watches?token={query}&q={key}",
                {"Authorization": f"Bearer {key}", "X-Odd": header},
            ),
            ("POST", "/api/bubble/plan", {"Cookie": f"session={cookie}"}),
            ("GET", f"/api/runs/{key}", {}),
            ("GET", f"/api/notes/{model}.md", {}),
            ("GET", f"/api/{query}", {}),
            ("GET", f"/api/notes/{shown.split()[1]}.md", {"Authorization": shown}),
        ):
            sent = {"path": "a.md", "password": body} if method == "POST" else None
            await call(daemon_rig, method, path, headers=headers, json=sent)
        await spoken(
            daemon_rig,
            "GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: "
            f"{header}\r\nConnection: close\r\n\r\n".encode(),
        )

    kept = b"".join(path.read_bytes() for path in (vault / ".parachute/audit").iterdir())
    assert kept
    secrets = (*CANARIES, shown.split()[1])
    assert [secret for secret in secrets if secret.encode() in kept] == []


async def test_nothing_that_a_caller_names_adds_a_line_or_a_control_character(live: Live, vault):
    names = ["%0d%0a%7B%22seq%22:1%7D", "%E2%80%A8", "%1b%5b2J", "%C2%85", "%ff%fe", "%ed%a0%80"]
    names.append("a" * 6000)
    async with live() as daemon_rig:
        for name in names:
            await call(daemon_rig, "GET", f"/api/runs/{name}")
            await call(daemon_rig, "GET", f"/api/notes/{name}")
        events = await audited(daemon_rig, type="api_call")

    assert len(events) == 2 * len(names)
    assert len(list(lines(vault))) == len(events) + 1
    text = next((vault / ".parachute/audit").glob("*.jsonl")).read_text("utf-8")
    assert all(one == "\n" or one.isprintable() for one in text)


async def test_pages_and_filters(daemon_rig: DaemonRig):
    for _ in range(5):
        await get(daemon_rig, "/api/health")
    first = await get(daemon_rig, "/api/audit?limit=3&type=api_call")
    second = await get(daemon_rig, f"/api/audit?limit=2&cursor={first['cursor']}")
    none = await get(daemon_rig, "/api/audit?since=2001-01-01&until=2001-01-02")

    pages = [[event["seq"] for event in page["events"]] for page in (first, second)]
    assert pages == [[5, 4, 3], [2, 1]]
    assert none == {"events": [], "count": 0, "cursor": None}
    wrong = "since=yesterday limit=0 limit=1001 cursor=x success=maybe path=../x what=1"
    for query in wrong.split():
        await expect(daemon_rig, 400, "GET", f"/api/audit?{query}")
    status, message = await refused(daemon_rig, "GET", "/api/audit?type=zzz")
    assert status == 400
    assert [type_ for type_ in EVENT_TYPES if f"'{type_}'" not in message] == []


async def test_the_words_of_an_error_that_name_a_heading_stay_out_of_it(
    vault: Path, daemon_rig: DaemonRig
):
    save(vault / "a.md", "# A\n\n## Diagnosis\n\nText.\n")
    async with peers.client(daemon_rig) as peer:
        said = await peers.refused(peer, "read_note", path="a.md", section="None")
    daemon_rig.daemon.vault.audit.flush()
    lines = b"".join(
        path.read_bytes() for path in (vault / ".parachute/audit").rglob("*") if path.is_file()
    )

    assert "Diagnosis" in said
    assert b"read_note" in lines
    assert b"Diagnosis" not in lines


async def test_it_says_whether_it_holds_and_no_other_call_reaches_it(vault, daemon_rig: DaemonRig):
    await get(daemon_rig, "/api/health")
    await get(daemon_rig, "/api/audit")
    (day,) = (vault / ".parachute/audit").glob("*.jsonl")
    name = f".parachute/audit/{day.name}"
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        status = await code(daemon_rig, method, f"/api/notes/{name}", json={})
        assert status in {400, 403, 404, 422}
    for path in (f"/api/read?path={name}", "/api/ls?path=.parachute/audit"):
        assert await code(daemon_rig, "GET", path) in {400, 403, 404}
    await daemon_rig.settled()
    assert daemon_rig.reported("file.") == []
    assert [path for path in daemon_rig.daemon.watched.index.paths() if ".parachute" in path] == []
    assert (await get(daemon_rig, "/api/audit/verify"))["holds"]
    day.write_bytes(day.read_bytes().replace(b"/api/health", b"/api/wealth"))

    verdict = await get(daemon_rig, "/api/audit/verify")

    assert not verdict["holds"]
    assert verdict["findings"] == [f"{day.name}:1 (seq 1) was changed after it was written"]


async def test_the_doctor_tells_of_an_audit_that_was_cut_meanwhile(live: Live, vault):
    async with live() as daemon_rig:
        await get(daemon_rig, "/api/watches")
        await get(daemon_rig, "/api/watches")
        assert (await get(daemon_rig, "/api/doctor"))["findings"] == []
    (day,) = (vault / ".parachute/audit").glob("*.jsonl")
    day.write_bytes(day.read_bytes().splitlines(keepends=True)[0])
    async with live() as daemon_rig:
        await daemon_rig.until(lambda: "audit" in daemon_rig.daemon.watched.problems.open)
        (reported,) = (await get(daemon_rig, "/api/doctor"))["findings"]

    assert "the end: seq 1 is last" in reported["problem"]
    assert "`parachute audit verify`" in reported["advice"]


async def test_a_hostile_link_is_a_problem_and_calls_are_answered_all_the_same(
    live: Live, vault, tmp_path
):
    (tmp_path / "elsewhere").mkdir()
    (vault / ".parachute").symlink_to(tmp_path / "elsewhere")
    async with live() as daemon_rig:
        problems = daemon_rig.daemon.watched.problems
        await get(daemon_rig, "/api/health")
        await daemon_rig.until(lambda: "audit" in problems.open)
        assert await post(daemon_rig, "/api/pause")
        status, message = await refused(daemon_rig, "GET", "/api/audit")

        assert problems.open["audit"].startswith("the audit cannot be written")
        assert (status, message.partition(":")[0]) == (507, "the audit cannot be read")
        assert (await get(daemon_rig, "/api/health"))["status"] == "degraded"
        (vault / ".parachute").unlink()
        await daemon_rig.until(lambda: "audit" not in problems.open)
        assert len(await audited(daemon_rig)) >= 3

    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_while_the_disk_is_full_only_reading_and_stopping_go_on(
    monkeypatch, daemon_rig: DaemonRig
):
    def refuse(*_given: object, **_named: object) -> bool:
        raise OSError(28, "No space left on device")

    audit, new = daemon_rig.daemon.vault.audit, ("PUT", "/api/notes/a.md")
    with monkeypatch.context() as patch:
        patch.setattr(audit.folder, "append", refuse)
        await get(daemon_rig, "/api/health")
        await daemon_rig.until(lambda: audit.refusal)
        assert await refused(daemon_rig, *new, data=b"# A\n") == (
            507,
            "the vault is read-only, since the audit cannot be written: No space left on device",
        )
        await get(daemon_rig, "/api/watches")
        await post(daemon_rig, "/api/pause")
        await post(daemon_rig, "/api/resume")

    await daemon_rig.until(lambda: not audit.refusal)
    await expect(daemon_rig, 201, *new, data=b"# A\n")
    assert {event["status"] for event in await audited(daemon_rig)} >= {200, 507}
