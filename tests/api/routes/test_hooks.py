"""Hooks over HTTP: seen by those who may read, tried, replayed and approved by those who may
administer.
"""

from __future__ import annotations

import aiohttp
import pytest

from tests.hooks.serving import READER, drop, serving

pytestmark = pytest.mark.on_disk

HELLO = "#!/bin/sh\n# Says hello\ncat >/dev/null\necho hello\n"
OBJECTS = "#!/bin/sh\necho 'not on Sundays' >&2\nexit 2\n"
FAILS = "#!/bin/sh\necho broken >&2\nexit 1\n"


SCRIPT = "on-session-start.sh"
TEST, APPROVE = "/api/hooks/test", "/api/hooks/approve"
SCRIPTS = f"/api/hooks/scripts?hook={SCRIPT}"


async def expect(served, status, method, path, body=None):
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, served.url + path, json=body) as answer,
    ):
        reported = await answer.json()
        assert answer.status == status, reported
        return reported


async def test_the_hooks_are_listed_with_what_apps_read(home, vault):
    drop(home, SCRIPT, HELLO)
    drop(home, "on-write-before.sh", OBJECTS)
    async with serving(home, vault) as served:
        answer = await expect(served, 200, "GET", "/api/hooks")

    fields = ("name", "events", "blocking", "description")
    assert [tuple(one[field] for field in fields) for one in answer["hooks"]] == [
        (SCRIPT, ["session.start"], False, "Says hello"),
        ("on-write-before.sh", ["write.before"], True, None),
    ]
    assert (answer["health"], answer["problems"]) == ({"recent_errors_count": 0}, [])


async def test_failures_are_reported_under_all_four_names_the_newest_first(home, vault):
    drop(home, SCRIPT, FAILS)
    drop(home, "on-session-end.sh", FAILS)
    async with serving(home, vault) as served:
        for event in ("session.start", "session.end"):
            await expect(served, 200, "POST", TEST, {"event": event})
        errors = (await expect(served, 200, "GET", "/api/hooks/errors"))["errors"]
        listed = await expect(served, 200, "GET", "/api/hooks")

    assert [one["hook"] for one in errors] == ["on-session-end.sh", SCRIPT]
    first = errors[0]
    assert set(first) == {"hook", "hook_name", "message", "error", "timestamp"}
    assert (first["hook_name"], first["error"]) == (first["hook"], first["message"])
    assert "broken" in first["message"]
    assert listed["health"] == {"recent_errors_count": 2}


async def test_a_trial_tells_what_went_in_what_came_out_and_what_it_would_decide(home, vault):
    drop(home, "on-write-before.sh", OBJECTS)
    body = {"event": "write.before", "data": {"path": "Sunday.md"}}
    async with serving(home, vault) as served:
        answer = await expect(served, 200, "POST", TEST, body)
        drop(home, SCRIPT, HELLO)  # one that was dropped a moment ago is tried as well
        again = await expect(served, 200, "POST", TEST, {"event": "SessionStart"})

    assert answer == answer | {"event": "write.before", "allowed": False, "passed_over": []}
    (run,) = answer["runs"]
    said = {"exit_code": 2, "decision": "blocked: not on Sundays", "stderr": "not on Sundays\n"}
    assert run == run | said
    assert '"path": "Sunday.md"' in run["stdin"]
    assert run["took_ms"] > 0
    assert [run["stdout"] for run in again["runs"]] == ["hello\n"]


async def test_what_cannot_be_tried_or_is_not_there_is_answered_so(home, vault):
    async with serving(home, vault) as served:
        for body, status, says in (
            ({}, 400, "event"),
            ({"event": "nonsense"}, 404, "there is no event 'nonsense'"),
            ({"event": "TaskCreated"}, 404, "has no counterpart here"),
            (
                {"event": "session.start", "hook": "on-nothing.sh"},
                404,
                "there is no hook 'on-nothing.sh' for session.start",
            ),
            ({"event": "session.start", "commands": "x"}, 400, "commands"),
        ):
            answer = await expect(served, status, "POST", TEST, body)
            assert says in answer["message"]
        await expect(served, 404, "GET", "/api/hooks/runs/h99999999")
        await expect(served, 404, "POST", "/api/hooks/runs/h99999999/replay")
        await expect(served, 404, "POST", APPROVE, {"names": ["on-nothing.sh"]})
        await expect(served, 404, "GET", "/api/hooks/scripts?hook=on-nothing.sh")
        await expect(served, 400, "GET", "/api/hooks/runs?limit=0")


async def test_runs_are_listed_shown_whole_and_replayed(home, vault):
    drop(home, SCRIPT, HELLO)
    body = {"event": "session.start", "data": {"session_id": "mine"}}
    async with serving(home, vault) as served:
        tried = await expect(served, 200, "POST", TEST, body)
        (run,) = (await expect(served, 200, "GET", "/api/hooks/runs?limit=5"))["runs"]
        place = f"/api/hooks/runs/{run['id']}"
        whole = await expect(served, 200, "GET", place)
        drop(home, SCRIPT, HELLO.replace("hello", "good day"))
        refused = await expect(served, 200, "POST", f"{place}/replay")
        approved = await expect(served, 200, "POST", APPROVE, {})
        again = await expect(served, 200, "POST", f"{place}/replay")

    assert "stdin" not in run
    assert whole == tried["runs"][0]
    assert refused["exit_code"] is None
    assert "`parachute hooks approve` lets it run" in refused["problem"]
    assert approved == {"approved": [str(home / "hooks" / SCRIPT)]}
    assert (again["stdout"], again["stdin"]) == ("good day\n", whole["stdin"])


async def test_a_reader_sees_that_hooks_exist_and_not_what_they_run_or_read(home, vault):
    drop(home, SCRIPT, HELLO)
    async with serving(home, vault, READER) as served:
        drop(home, SCRIPT, OBJECTS)
        answer = await expect(served, 200, "GET", "/api/hooks")
        for method, path in (
            ("POST", TEST),
            ("GET", "/api/hooks/runs"),
            ("GET", "/api/hooks/runs/h1"),
            ("POST", "/api/hooks/runs/h1/replay"),
            ("POST", APPROVE),
        ):
            await expect(served, 403, method, path, {} if method == "POST" else None)

    (one,) = answer["hooks"]
    assert one["problem"].startswith("it does not run")
    assert str(home) not in str(answer)
    assert one["command"] is None


async def test_a_changed_script_is_approved_as_it_was_shown(home, vault):
    drop(home, SCRIPT, HELLO)
    async with serving(home, vault) as served:
        await expect(served, 200, "POST", APPROVE, {})
        drop(home, SCRIPT, HELLO.replace("hello\n", "good day\n"))
        (file,) = (await expect(served, 200, "GET", SCRIPTS))["files"]
        drop(home, SCRIPT, HELLO.replace("hello\n", "something else\n"))
        body = {"hashes": {file["path"]: file["hash"]}}
        late = await expect(served, 409, "POST", APPROVE, body)
        (now,) = (await expect(served, 200, "GET", SCRIPTS))["files"]
        body = {"names": [SCRIPT], "hashes": {now["path"]: now["hash"]}}
        done = await expect(served, 200, "POST", APPROVE, body)

    assert file["state"] == "changed"
    assert "echo good day\n" in file["text"]
    assert "changed since it was shown" in late["message"]
    assert "echo something else" in now["text"]
    assert done["approved"] == [now["path"]]


async def test_a_script_that_was_not_shown_is_not_approved(home, vault):
    script = drop(home, SCRIPT, HELLO)
    async with serving(home, vault) as served:
        await expect(served, 200, "POST", APPROVE, {})
        script.write_bytes(HELLO.replace("hello\n", "something else\n").encode() + b"# \xff\n")
        shown = await expect(served, 200, "GET", SCRIPTS)
        unseen = await expect(served, 409, "POST", APPROVE, {"names": [SCRIPT], "hashes": {}})

    assert "open it yourself" in shown["files"][0]["text"]
    assert "so nothing was approved" in unseen["message"]
