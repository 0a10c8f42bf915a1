"""The rows of the app's contract for turns, the curator, workspaces and imports, read as strictly
as the app reads them.

The events of a stream are held against `app_decoder` in every test that reads one.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.modules import AgentSession
from tests.chat.app_decoder import decode
from tests.chat.chat_of import conversations
from tests.chat.exports import CHATGPT
from tests.chat.scripted_runs import ask, kinds, only, scripted_chat, until, words
from tests.chat.talks import talk


def texts(found: object) -> list[str]:
    assert isinstance(found, list)
    assert all(isinstance(one, str) for one in found), found
    return found


async def test_tools_and_model_of_a_turn_are_events_that_the_app_decodes(vault):
    begun = AgentSession(
        session_id="cli", is_resumed=False, tools=("read_note", "AskUserQuestion"), model="model-a"
    )
    async with scripted_chat(vault, [begun, *words("Yes.")]) as (module, _):
        events = await ask(module, "Beans?")
        assert only(events, "init")["tools"] == ["read_note", "AskUserQuestion"]
        assert only(events, "model")["model"] == "model-a"
        assert kinds(events).index("model") < kinds(events).index("text")


@pytest.mark.parametrize("is_injected", [False, True])
async def test_an_exchange_is_logged_once_however_often_the_curator_is_asked(vault, is_injected):
    hold = asyncio.Event()
    async with scripted_chat(vault, [hold, *words("Left.")]) as (module, runs):
        session = str((await conversations(module).create("Beans"))["id"])
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(module, "Where do the beans go?", session))
            await until(lambda: runs.started)
            if is_injected:
                await module.request("POST", f"/{session}/inject", body={"message": "Quick."})
            hold.set()
        for ran in (1, 2, 3):
            if ran > 1:
                await module.request("POST", f"/{session}/curator/trigger")
            async with asyncio.timeout(60):
                while await curator_runs(module, session) < ran:
                    await asyncio.sleep(0)
        days = (vault / ".parachute/activity").glob("*.jsonl")
        logged = [json.loads(line) for day in days for line in day.read_text().splitlines()]
        assert [(one["session_id"], one["exchange_number"]) for one in logged] == [(session, 1)]
        found = await module.request("GET", f"/{session}/curator/messages")
        for message in found["messages"]:
            assert isinstance(decode(message, "role:s").get("content"), str)
            for call in message.get("tool_calls") or ():
                decode(call, "name:s input:o")
        await module.request("DELETE", f"/{session}")
        assert [one for one in await module.state.keys() if one.endswith(f"/{session}")] == []


async def curator_runs(module, session: str) -> int:
    try:
        found = await module.request("GET", f"/{session}/curator/messages")
    except NotFoundError:
        return 0
    return len(found["messages"]) // 2


EVENT = "type:s subtype?:s uuid?:s parentUuid?:s timestamp?:t message?:o isCompactSummary?:b"
SEGMENT = (
    "index:i isCompacted:b messageCount:i eventCount:i startTime?:t endTime?:t preview?:s loaded:b"
)


async def test_the_app_decodes_a_transcript(chat, vault):
    made = await talk(chat, vault, ["Where do the beans go?", "In the sun."])
    for query in ({}, {"after_compact": "true"}, {"segment": "0"}, {"full": "true"}):
        found = decode(
            await chat.request("GET", f"/{made}/transcript", query=query),
            "sessionId:s transcriptPath?:s eventCount:i segmentCount:i loadedSegmentIndex?:i",
        )
        events = [decode(event, EVENT) for event in found["events"]]
        assert [event["parentUuid"] for event in events] == [None, "m0"]
        assert [decode(one, SEGMENT)["index"] for one in found["segments"]] == [0]
    with pytest.raises(NotFoundError):
        await chat.request("GET", "/nobody/transcript")


async def test_workspaces_imports_and_plugins_are_as_the_app_decodes_them(chat):
    at = "/api/workspaces"
    made = await chat.request("POST", f"{at}/", body={"name": "Garden"})
    listed = await chat.request("GET", f"{at}/")
    one = await chat.request("GET", f"{at}/garden")
    for row in (made["workspace"], *listed["workspaces"], one["workspace"]):
        decode(
            row,
            "name:s slug:s description:s default_trust_level:s working_directory?:s model?:s "
            "capabilities:o",
        )
        assert set(row["capabilities"]) == {"mcps", "skills", "agents", "plugins"}
        for value in row["capabilities"].values():
            assert value in {"all", "none"} or texts(value) == value

    report = decode(
        await chat.request("POST", "/api/import/", body={"data": CHATGPT, "archived": False}),
        "total_conversations:i imported_count:i skipped_count:i",
    )
    assert len(texts(report["session_ids"])) == 1
    assert len(texts(report["errors"])) == 1

    assert await chat.request("GET", "/api/plugins/") == {"plugins": []}
    refused = await chat.request("POST", "/api/plugins/install", body={"url": "x"})
    assert refused.status == 501
    assert ".skills/" in decode(refused.body, "detail:s error:s")["detail"], "where they go"
    for method, path in (
        ("POST", "x/update"),
        ("DELETE", "x"),
        ("GET", "x/check-update"),
        ("GET", "x/skills/y"),
    ):
        with pytest.raises(NotFoundError):
            await chat.request(method, f"/api/plugins/{path}")


CLAUDE_CODE = (
    "sessionId:s title?:s firstMessage?:s messageCount:i createdAt?:t lastTimestamp?:t model?:s "
    "cwd?:s projectPath?:s projectDisplayName?:s"
)


def transcribed(project: str, name: str, *said: str) -> None:
    """A session of Claude Code, as its CLI keeps it, with a last line that was cut off."""
    file = Path.home() / ".claude/projects" / project / f"{name}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    roles = ("user", "assistant")
    lines = [
        {
            "type": roles[number % 2],
            "uuid": f"{name}-{number}",
            "cwd": "/home/me/garden",
            "sessionId": name,
            "timestamp": f"2026-01-0{number + 1}T12:00:00Z",
            "message": {"role": roles[number % 2], "model": "model-a", "content": text},
        }
        for number, text in enumerate(said)
    ]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"type": "us')


async def test_the_app_decodes_claude_codes_sessions_and_adopts_them(chat):
    for path in ("recent", "projects", "sessions"):
        (found,) = (await chat.request("GET", f"/api/claude-code/{path}")).values()
        assert found == []
    transcribed("-home-me-garden", "one", "Where do beans go?", "On the left.")
    transcribed("-home-me-other", "two", "Peas?")
    transcribed("-home-me-other", "empty")
    secret = Path.home() / "secret.jsonl"
    secret.write_text('{"type": "user", "uuid": "s", "message": {"content": "secret"}}\n')
    (Path.home() / ".claude/projects/-home-me-garden/three.jsonl").symlink_to(secret)

    recent = (await chat.request("GET", "/api/claude-code/recent"))["sessions"]
    assert {decode(one, CLAUDE_CODE)["sessionId"] for one in recent} == {"one", "two"}
    projects = (await chat.request("GET", "/api/claude-code/projects"))["projects"]
    counts = {
        one["encodedName"]: one["sessionCount"]
        for one in (decode(project, "encodedName:s path:s sessionCount:i") for project in projects)
    }
    assert counts == {"-home-me-garden": 1, "-home-me-other": 2}
    for path in ("/home/me/garden/", "-home-me-garden"):
        asked = {"path": path}
        (mine,) = (await chat.request("GET", "/api/claude-code/sessions", query=asked))["sessions"]
        assert (mine["firstMessage"], mine["model"]) == ("Where do beans go?", "model-a")
        assert (mine["cwd"], mine["projectDisplayName"]) == ("/home/me/garden", "garden")
    session = decode(await chat.request("GET", "/api/claude-code/sessions/one"), CLAUDE_CODE)
    said = [decode(one, "type:s content?:s timestamp?:t") for one in session["messages"]]
    assert [one["content"] for one in said] == ["Where do beans go?", "On the left."]
    for path in ("sessions/three", "sessions/empty", "sessions/..secret", "sessions/none"):
        with pytest.raises(NotFoundError, match="Claude Code has no session"):
            await chat.request("GET", f"/api/claude-code/{path}")
    with pytest.raises(NotFoundError, match="Claude Code has no session 'none'"):
        await chat.request("POST", "/api/claude-code/adopt/none", body={"workingDirectory": "/x"})

    answer = "success:b alreadyAdopted:b parachuteSessionId:s filePath?:s messageCount?:i message:s"
    for is_there in (False, True):
        found = decode(await chat.request("POST", "/api/claude-code/adopt/one"), answer)
        assert (found["success"], found["alreadyAdopted"]) == (True, is_there)
    made = await chat.request("GET", f"/{found['parachuteSessionId']}")
    assert (made["source"], made["originalId"]) == ("claude-code", "one")
    assert found["messageCount"] == len(made["messages"]) == 2


async def test_claude_codes_sessions_are_for_the_person_at_the_machine_alone(chat):
    transcribed("-home-me-garden", "one", "Where do beans go?")
    for asking in (chat.with_key("k1", paths=None), chat.with_key("", paths=["Notes/**"])):
        for method, path in (
            ("GET", "recent"),
            ("GET", "projects"),
            ("GET", "sessions"),
            ("GET", "sessions/one"),
            ("POST", "adopt/one"),
        ):
            with pytest.raises(ActRefusedError, match="at this machine"):
                await asking.request(method, f"/api/claude-code/{path}")
