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


async def call(served, method, path, body=None):
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, served.url + path, json=body) as answer,
    ):
        return answer.status, await answer.json()


async def test_the_hooks_are_listed_with_what_apps_read(home, vault):
    drop(home, "on-session-start.sh", HELLO)
    drop(home, "on-write-before.sh", OBJECTS)
    async with serving(home, vault) as served:
        status, answer = await call(served, "GET", "/api/hooks")

    assert status == 200
    assert [
        (one["name"], one["events"], one["blocking"], one["description"]) for one in answer["hooks"]
    ] == [
        ("on-session-start.sh", ["session.start"], False, "Says hello"),
        ("on-write-before.sh", ["write.before"], True, None),
    ]
    assert (answer["health"], answer["problems"]) == ({"recent_errors_count": 0}, [])


async def test_failures_are_reported_under_all_four_names_the_newest_first(home, vault):
    drop(home, "on-session-start.sh", FAILS)
    drop(home, "on-session-end.sh", FAILS)
    async with serving(home, vault) as served:
        for event in ("session.start", "session.end"):
            await call(served, "POST", "/api/hooks/test", {"event": event})
        _, answer = await call(served, "GET", "/api/hooks/errors")
        _, listed = await call(served, "GET", "/api/hooks")

    assert [one["hook"] for one in answer["errors"]] == ["on-session-end.sh", "on-session-start.sh"]
    first = answer["errors"][0]
    assert set(first) == {"hook", "hook_name", "message", "error", "timestamp"}
    assert (first["hook_name"], first["error"]) == (first["hook"], first["message"])
    assert "broken" in first["message"]
    assert listed["health"] == {"recent_errors_count": 2}


async def test_a_trial_tells_what_went_in_what_came_out_and_what_it_would_decide(home, vault):
    drop(home, "on-write-before.sh", OBJECTS)
    async with serving(home, vault) as served:
        status, answer = await call(
            served,
            "POST",
            "/api/hooks/test",
            {"event": "write.before", "data": {"path": "Sunday.md"}},
        )

    assert status == 200
    assert answer == answer | {"event": "write.before", "allowed": False, "passed_over": []}
    (run,) = answer["runs"]
    assert (run["exit_code"], run["decision"], run["stderr"]) == (
        2,
        "blocked: not on Sundays",
        "not on Sundays\n",
    )
    assert '"path": "Sunday.md"' in run["stdin"]
    assert run["took_ms"] > 0


async def test_a_script_that_was_dropped_a_moment_ago_is_tried_as_well(home, vault):
    async with serving(home, vault) as served:
        drop(home, "on-session-start.sh", HELLO)
        _, answer = await call(served, "POST", "/api/hooks/test", {"event": "SessionStart"})

    assert [run["stdout"] for run in answer["runs"]] == ["hello\n"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 400, "event"),
        ({"event": "nonsense"}, 404, "there is no event 'nonsense'"),
        ({"event": "TaskCreated"}, 404, "has no counterpart here"),
        (
            {"event": "session.start", "hook": "on-nothing.sh"},
            404,
            "there is no hook 'on-nothing.sh' for session.start",
        ),
        ({"event": "session.start", "commands": "x"}, 400, "commands"),
    ],
)
async def test_what_cannot_be_tried_says_why(home, vault, body, status, says):
    async with serving(home, vault) as served:
        found, answer = await call(served, "POST", "/api/hooks/test", body)

    assert (found, says in answer["message"]) == (status, True), answer


async def test_runs_are_listed_shown_whole_and_replayed(home, vault):
    drop(home, "on-session-start.sh", HELLO)
    async with serving(home, vault) as served:
        _, tried = await call(
            served,
            "POST",
            "/api/hooks/test",
            {"event": "session.start", "data": {"session_id": "mine"}},
        )
        _, listed = await call(served, "GET", "/api/hooks/runs?limit=5")
        (run,) = listed["runs"]
        whole = await call(served, "GET", f"/api/hooks/runs/{run['id']}")
        drop(home, "on-session-start.sh", HELLO.replace("hello", "good day"))
        refused = await call(served, "POST", f"/api/hooks/runs/{run['id']}/replay")
        approved = await call(served, "POST", "/api/hooks/approve", {})
        again = await call(served, "POST", f"/api/hooks/runs/{run['id']}/replay")

    assert "stdin" not in run
    assert whole == (200, tried["runs"][0])
    assert (refused[0], refused[1]["exit_code"]) == (200, None)
    assert "`parachute hooks approve` lets it run" in refused[1]["problem"]
    assert approved == (200, {"approved": [str(home / "hooks" / "on-session-start.sh")]})
    assert (again[1]["stdout"], again[1]["stdin"]) == ("good day\n", whole[1]["stdin"])


async def test_a_run_that_is_not_there_is_not_found(home, vault):
    async with serving(home, vault) as served:
        assert (await call(served, "GET", "/api/hooks/runs/h99999999"))[0] == 404
        assert (await call(served, "POST", "/api/hooks/runs/h99999999/replay"))[0] == 404
        assert (await call(served, "POST", "/api/hooks/approve", {"names": ["on-nothing.sh"]}))[
            0
        ] == 404
        assert (await call(served, "GET", "/api/hooks/runs?limit=0"))[0] == 400


async def test_a_reader_sees_that_hooks_exist_and_not_what_they_run_or_read(home, vault):
    script = drop(home, "on-session-start.sh", HELLO)
    async with serving(home, vault, READER) as served:
        drop(home, script.name, OBJECTS)
        status, answer = await call(served, "GET", "/api/hooks")
        others = [
            await call(served, method, path, {} if method == "POST" else None)
            for method, path in [
                ("POST", "/api/hooks/test"),
                ("GET", "/api/hooks/runs"),
                ("GET", "/api/hooks/runs/h1"),
                ("POST", "/api/hooks/runs/h1/replay"),
                ("POST", "/api/hooks/approve"),
            ]
        ]

    assert status == 200
    (one,) = answer["hooks"]
    assert one["problem"].startswith("it does not run")
    assert str(home) not in str(answer)
    assert one["command"] is None
    assert {status for status, _ in others} == {403}


async def test_a_changed_script_is_shown_beside_what_was_approved_and_approved_as_it_was_shown(
    home, vault
):
    drop(home, "on-session-start.sh", HELLO)
    async with serving(home, vault) as served:
        await call(served, "POST", "/api/hooks/approve", {})
        drop(home, "on-session-start.sh", HELLO.replace("hello\n", "good day\n"))
        _, shown = await call(served, "GET", "/api/hooks/diff?hook=on-session-start.sh")
        (file,) = shown["files"]
        drop(home, "on-session-start.sh", HELLO.replace("hello\n", "something else\n"))
        late, reported = await call(
            served, "POST", "/api/hooks/approve", {"hashes": {file["path"]: file["hash"]}}
        )
        _, again = await call(served, "GET", "/api/hooks/diff?hook=on-session-start.sh")
        (now,) = again["files"]
        status, done = await call(
            served,
            "POST",
            "/api/hooks/approve",
            {"names": ["on-session-start.sh"], "hashes": {now["path"]: now["hash"]}},
        )
        missing, _ = await call(served, "GET", "/api/hooks/diff?hook=on-nothing.sh")

    assert (file["state"], missing) == ("changed", 404)
    assert "-echo hello\n+echo good day\n" in file["diff"]
    assert (late, "changed since it was shown" in reported["message"]) == (409, True)
    assert "+echo something else" in now["diff"]
    assert (status, done["approved"]) == (200, [now["path"]])
    kept = [path for path in (home / "hook-approvals").iterdir() if path.stat().st_mode & 0o077]
    assert kept == []


async def test_a_script_that_was_not_shown_or_cannot_be_is_not_taken_for_what_was(home, vault):
    drop(home, "on-session-start.sh", HELLO)
    script = home / "hooks/on-session-start.sh"
    async with serving(home, vault) as served:
        await call(served, "POST", "/api/hooks/approve", {})
        script.write_bytes(HELLO.replace("hello\n", "something else\n").encode() + b"# \xff\n")
        _, shown = await call(served, "GET", "/api/hooks/diff?hook=on-session-start.sh")
        body = {"names": ["on-session-start.sh"], "hashes": {}}
        unseen, reported = await call(served, "POST", "/api/hooks/approve", body)

    assert "open it yourself" in shown["files"][0]["diff"]
    assert (unseen, "so nothing was approved" in reported["message"]) == (409, True)
