"""Turns in a daemon: over HTTP, with Claude Code's CLI and a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parachuted.testing import Block, RecordedRequest, ScriptedMessages, say, use
from tests.api.calls import call, code, expect, get
from tests.chat.live_turns import Model, events, turn
from tests.chat.talks import eventually
from tests.module_files import install_official
from tests.stories.daemon_rig import DaemonRig


async def waiting_question(daemon_rig: DaemonRig, session: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        pending = await get(daemon_rig, f"/api/chat/{session}/pending-questions")
        return next(iter(pending["pending"]), None)

    return await eventually(look)


async def test_a_conversation_streams_over_http_and_goes_on_after_a_restart(talking, vault):
    (vault / "Garden").mkdir()
    (vault / "Garden/AGENTS.md").write_text("# Garden\n\nBeans are on the left bed.\n")
    model = Model("On the left bed.", "Since May.", "It is November.")
    async with ScriptedMessages([model] * 100) as api:
        async with talking(api) as daemon_rig:
            await install_official(daemon_rig, "chat")
            body = {"message": "Where are the beans?", "module": "chat", "contexts": ["Garden"]}
            found = await events(daemon_rig, "POST", "/api/chat", body)
            kinds = [one["type"] for _, one in found]
            assert kinds[:2] == ["session", "session"]
            assert kinds[-1] == "done", found[-1]
            assert all(event_id for event_id, _ in found)
            done = found[-1][1]
            session = done["sessionId"]
            assert done["response"] == "On the left bed."
            assert "Beans are on the left bed." in model.asked[0]
            found = await turn(daemon_rig, "Since when?", session)
            assert found[-1]["sessionResume"]["method"] == "sdk_resume"
            assert "On the left bed." in model.asked[1]
            status = await get(daemon_rig, f"/api/chat/{session}/stream-status")
            assert status == {"active": False}
            for method, path in (("POST", "abort"), ("GET", "stream"), ("POST", "retry")):
                await expect(daemon_rig, 404, method, f"/api/chat/nobody/{path}")
        async with talking(api) as daemon_rig:
            found = await turn(daemon_rig, "And now?", session)
            assert found[-1]["response"] == "It is November."
            assert "Since May." in model.asked[2]


async def test_a_stop_and_two_followers_see_the_same_end_over_http(talking, vault):
    model = Model("Yes.", "", "Still here.")
    async with ScriptedMessages([model] * 100) as api, talking(api) as daemon_rig:
        await install_official(daemon_rig, "chat")
        found = await events(daemon_rig, "POST", "/api/chat", {"message": "Are you there?"})
        chat = f"/api/chat/{found[-1][1]['sessionId']}"
        body = {"message": "Think long.", "sessionId": found[-1][1]["sessionId"]}
        follow = f"{chat}/stream?after={found[-1][0]}"
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(events(daemon_rig, "POST", "/api/chat", body))
            await daemon_rig.until(lambda: len(model.asked) == 2, 60)
            following = [group.create_task(events(daemon_rig, "GET", follow)) for _ in range(2)]
            streams = (await get(daemon_rig, "/api/chat/active-streams"))["streams"]
            assert streams == [{"session_id": body["sessionId"]}]
            assert await code(daemon_rig, "POST", "/api/chat", json=body) == 409
            assert await code(daemon_rig, "POST", f"{chat}/abort") == 200
        ends = [one.result()[-1] for one in (asking, *following)]
        assert [end["type"] for _, end in ends] == ["aborted"] * 3
        assert len({event_id for event_id, _ in ends}) == 1
        again = await events(daemon_rig, "POST", f"{chat}/retry")
        assert again[-1][1]["response"] == "Still here."
        shown = await get(daemon_rig, chat)
        assert [one["role"] for one in shown["messages"]] == ["user", "assistant"] * 2


QUESTION = {"question": "Which bed?", "header": "Bed", "options": [{"label": "Left"}]}


def asks_once(asked: list[str]):
    """A model that asks the person, and then says what it was answered."""

    def model(request: RecordedRequest) -> Sequence[Block]:
        if "AskUserQuestion" not in json.dumps(request.body):
            return [say("Noted.")]
        asked.append(json.dumps(request.body["messages"]))
        question = use("AskUserQuestion", questions=[QUESTION])
        return [question] if len(asked) == 1 else [say("The left one.")]

    return model


async def test_a_question_is_answered_after_a_restart(talking):
    asked: list[str] = []
    async with ScriptedMessages([asks_once(asked)] * 100) as api:
        async with talking(api) as daemon_rig, asyncio.TaskGroup() as group:
            await install_official(daemon_rig, "chat")
            body = {"message": "Where do the beans go?"}
            reading = group.create_task(events(daemon_rig, "POST", "/api/chat", body))

            async def begun() -> dict[str, Any] | None:
                return next(iter((await get(daemon_rig, "/api/chat"))["sessions"]), None)

            session = (await eventually(begun))["id"]
            await waiting_question(daemon_rig, session)
            reading.cancel()
        async with talking(api) as daemon_rig:
            pending = f"/api/chat/{session}/pending-questions"
            [waiting] = (await get(daemon_rig, pending))["pending"]
            shown = await events(daemon_rig, "GET", f"/api/chat/{session}/stream")
            assert [one["requestId"] for _, one in shown if one["type"] == "user_question"] == [
                waiting["request_id"]
            ]
            body = {"request_id": waiting["request_id"], "answers": {"Which bed?": "Left"}}
            path = f"/api/chat/{session}/answer"
            assert await code(daemon_rig, "POST", path, json=body) == 200
            found = await events(daemon_rig, "GET", f"/api/chat/{session}/stream")
            assert found[-1][1]["response"] == "The left one."
            assert "You asked: Which bed?" in asked[-1]
            assert "Where do the beans go?" in asked[-1]
            assert (await get(daemon_rig, pending))["pending"] == []
            assert await code(daemon_rig, "POST", path, json=body) == 404


async def approve_changed(daemon_rig: DaemonRig, vault: Path) -> None:
    """Change a file of Chat's folder in the vault, and approve what that shows."""
    with (vault / "Modules/chat/modes.py").open("a") as file:
        file.write("# changed\n")
    async with asyncio.timeout(30):
        while (await get(daemon_rig, "/api/modules/chat"))["state"] != "changed":
            await asyncio.sleep(0)
    shown = await get(daemon_rig, "/api/modules/chat/diff?trust=trusted")
    body = {"hash": shown["hash"], "trust": "trusted"}
    status, module = await call(daemon_rig, "POST", "/api/modules/chat/approve", json=body)
    assert (status, module.get("state"), module.get("status")) == (200, "approved", "running")


async def test_a_restarted_or_changed_chat_leaves_the_model_within_reach(talking, vault):
    answers = ("One.", "Two.", "Three.", "Four.", "Five.")
    model = Model(*answers)
    async with ScriptedMessages([model] * 100) as api, talking(api) as daemon_rig:
        await install_official(daemon_rig, "chat")
        session = None
        for number, answer in enumerate(answers):
            done = (await turn(daemon_rig, "Count.", session if number % 2 else None))[-1]
            assert done["response"] == answer, done
            session = done["sessionId"]
            if number < 2:
                await expect(daemon_rig, 200, "POST", "/api/modules/chat/restart", json={})
            else:
                await approve_changed(daemon_rig, vault)


async def test_the_trusted_agent_asks_in_the_conversation_and_once_for_all_of_it(talking):
    model = Model("Hello.", "As you allowed.", "Still allowed.")
    async with ScriptedMessages([model] * 100) as api, talking(api) as daemon_rig:
        await install_official(daemon_rig, "chat")
        session = (await turn(daemon_rig, "Hello."))[-1]["sessionId"]
        chat = f"/api/chat/{session}"
        await expect(daemon_rig, 200, "PATCH", chat, json={"mode": "trusted"})

        body = {"message": "Tidy up.", "sessionId": session}
        for label in ("Deny", "Allow"):
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(events(daemon_rig, "POST", "/api/chat", body))
                waiting = await waiting_question(daemon_rig, session)
                [question] = waiting["questions"]
                assert [one["label"] for one in question["options"]] == ["Allow", "Deny"]
                answers = {question["question"]: label}
                answer = {"request_id": waiting["request_id"], "answers": answers}
                await expect(daemon_rig, 200, "POST", f"{chat}/answer", json=answer)
            found = [one for _, one in reading.result()]
            assert waiting["request_id"] in [
                one["requestId"] for one in found if one["type"] == "user_question"
            ]
            if label == "Deny":
                assert "error" in found[-1]["type"], found[-1]
                assert len(model.asked) == 1
        assert found[-1]["response"] == "As you allowed."

        found = await turn(daemon_rig, "Go on.", session)
        assert found[-1]["response"] == "Still allowed."
        assert "user_question" not in [one["type"] for one in found]
        assert (await get(daemon_rig, f"{chat}/pending-questions"))["pending"] == []
