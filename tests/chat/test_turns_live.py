"""Turns in a daemon: over HTTP, with Claude Code's CLI and a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import Block, RecordedRequest, ScriptedMessages, say, use
from tests.api.routes.test_modules import install
from tests.chat.live_turns import Model, call, events
from tests.stories.daemon_rig import DaemonRig


async def test_a_conversation_streams_over_http_and_goes_on_after_a_restart(talking, vault):
    (vault / "Garden").mkdir()
    (vault / "Garden/AGENTS.md").write_text("# Garden\n\nBeans are on the left bed.\n")
    model = Model("On the left bed.", "Since May.", "It is November.")
    async with ScriptedMessages([model] * 100) as api:
        async with talking(api) as daemon_rig:
            await install(daemon_rig, bundled_folder("modules") / "chat", "trusted")
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
            body = {"message": "Since when?", "sessionId": session}
            found = await events(daemon_rig, "POST", "/api/chat", body)
            assert found[-1][1]["sessionResume"]["method"] == "sdk_resume"
            assert "On the left bed." in model.asked[1]
            status, answer = await call(daemon_rig, "GET", f"/api/chat/{session}/stream-status")
            assert (status, answer) == (200, {"active": False})
            for method, path in (("POST", "abort"), ("GET", "stream"), ("POST", "retry")):
                status, answer = await call(daemon_rig, method, f"/api/chat/nobody/{path}")
                assert status == 404, path
                assert answer["error"]
        async with talking(api) as daemon_rig:
            body = {"message": "And now?", "sessionId": session}
            found = await events(daemon_rig, "POST", "/api/chat", body)
            assert found[-1][1]["response"] == "It is November."
            assert "Since May." in model.asked[2]


async def test_a_stop_and_two_followers_see_the_same_end_over_http(talking, vault):
    model = Model("Yes.", "", "Still here.")
    async with ScriptedMessages([model] * 100) as api, talking(api) as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "chat", "trusted")
        found = await events(daemon_rig, "POST", "/api/chat", {"message": "Are you there?"})
        session = found[-1][1]["sessionId"]
        body = {"message": "Think long.", "sessionId": session}
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(events(daemon_rig, "POST", "/api/chat", body))
            await daemon_rig.until(lambda: len(model.asked) == 2, 60)
            following = [
                group.create_task(
                    events(daemon_rig, "GET", f"/api/chat/{session}/stream?after={found[-1][0]}")
                )
                for _ in range(2)
            ]
            streams = (await call(daemon_rig, "GET", "/api/chat/active-streams"))[1]["streams"]
            assert streams == [{"session_id": session}]
            assert (await call(daemon_rig, "POST", "/api/chat", body))[0] == 409
            assert (await call(daemon_rig, "POST", f"/api/chat/{session}/abort"))[0] == 200
        ends = [one.result()[-1] for one in (asking, *following)]
        assert [end["type"] for _, end in ends] == ["aborted"] * 3
        assert len({event_id for event_id, _ in ends}) == 1
        again = await events(daemon_rig, "POST", f"/api/chat/{session}/retry")
        assert again[-1][1]["response"] == "Still here."
        _, shown = await call(daemon_rig, "GET", f"/api/chat/{session}")
        assert [one["role"] for one in shown["messages"]] == ["user", "assistant"] * 2


QUESTION = {"question": "Which bed?", "header": "Bed", "options": [{"label": "Left"}]}


def asks_once(asked: list[str]):
    """A model that asks the person, and then says what it was answered."""

    def model(request: RecordedRequest) -> Sequence[Block]:
        if "AskUserQuestion" not in json.dumps(request.body):
            return [say("Noted.")]
        asked.append(json.dumps(request.body["messages"]))
        return (
            [use("AskUserQuestion", questions=[QUESTION])]
            if len(asked) == 1
            else [say("The left one.")]
        )

    return model


async def test_a_question_is_answered_after_a_restart(talking):
    asked: list[str] = []
    async with ScriptedMessages([asks_once(asked)] * 100) as api:
        async with talking(api) as daemon_rig, asyncio.TaskGroup() as group:
            await install(daemon_rig, bundled_folder("modules") / "chat", "trusted")
            body = {"message": "Where do the beans go?"}
            reading = group.create_task(events(daemon_rig, "POST", "/api/chat", body))
            async with asyncio.timeout(60):
                while not (await call(daemon_rig, "GET", "/api/chat"))[1]["sessions"]:
                    await asyncio.sleep(0.01)
                [row] = (await call(daemon_rig, "GET", "/api/chat"))[1]["sessions"]
                pending = f"/api/chat/{row['id']}/pending-questions"
                while not (await call(daemon_rig, "GET", pending))[1]["pending"]:
                    await asyncio.sleep(0.01)
            reading.cancel()
        async with talking(api) as daemon_rig:
            [waiting] = (await call(daemon_rig, "GET", pending))[1]["pending"]
            shown = await events(daemon_rig, "GET", f"/api/chat/{row['id']}/stream")
            assert [one["requestId"] for _, one in shown if one["type"] == "user_question"] == [
                waiting["request_id"]
            ]
            body = {"request_id": waiting["request_id"], "answers": {"Which bed?": "Left"}}
            path = f"/api/chat/{row['id']}/answer"
            assert (await call(daemon_rig, "POST", path, body))[0] == 200
            found = await events(daemon_rig, "GET", f"/api/chat/{row['id']}/stream")
            assert found[-1][1]["response"] == "The left one."
            assert "You asked: Which bed?" in asked[-1]
            assert "Where do the beans go?" in asked[-1]
            assert (await call(daemon_rig, "GET", pending))[1]["pending"] == []
            assert (await call(daemon_rig, "POST", path, body))[0] == 404


async def approve_changed(daemon_rig: DaemonRig, vault: Path) -> None:
    """Change a file of Chat's folder in the vault, and approve what that shows."""
    with (vault / "Modules/chat/modes.py").open("a") as file:
        file.write("# changed\n")
    async with asyncio.timeout(30):
        state = ""
        while state != "changed":
            _, module = await call(daemon_rig, "GET", "/api/modules/chat")
            state = module["state"]
    _, shown = await call(daemon_rig, "GET", "/api/modules/chat/diff?trust=trusted")
    body = {"hash": shown["hash"], "trust": "trusted"}
    status, module = await call(daemon_rig, "POST", "/api/modules/chat/approve", body)
    assert (status, module.get("state"), module.get("status")) == (200, "approved", "running")


async def test_a_restarted_or_changed_chat_leaves_the_model_within_reach(talking, vault):
    answers = ("One.", "Two.", "Three.", "Four.", "Five.")
    model = Model(*answers)
    async with ScriptedMessages([model] * 100) as api, talking(api) as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "chat", "trusted")
        session = None
        for number, answer in enumerate(answers):
            body = {"message": "Count.", "sessionId": session if number % 2 else None}
            done = (await events(daemon_rig, "POST", "/api/chat", body))[-1][1]
            assert (done["type"], done.get("response")) == ("done", answer), done
            session = done["sessionId"]
            if number < 2:
                status, module = await call(daemon_rig, "POST", "/api/modules/chat/restart", {})
                assert status == 200, module
            else:
                await approve_changed(daemon_rig, vault)


async def waiting_question(daemon_rig: DaemonRig, session: str) -> dict[str, Any]:
    pending = f"/api/chat/{session}/pending-questions"
    async with asyncio.timeout(30):
        while not (waiting := (await call(daemon_rig, "GET", pending))[1]["pending"]):
            await asyncio.sleep(0.01)
    return waiting[0]


async def test_the_trusted_agent_asks_in_the_conversation_and_once_for_all_of_it(talking):
    model = Model("Hello.", "As you allowed.", "Still allowed.")
    async with ScriptedMessages([model] * 100) as api, talking(api) as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "chat", "trusted")
        found = await events(daemon_rig, "POST", "/api/chat", {"message": "Hello."})
        session = found[-1][1]["sessionId"]
        status, shown = await call(daemon_rig, "PATCH", f"/api/chat/{session}", {"mode": "trusted"})
        assert status == 200, shown

        body = {"message": "Tidy up.", "sessionId": session}
        for label in ("Deny", "Allow"):
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(events(daemon_rig, "POST", "/api/chat", body))
                waiting = await waiting_question(daemon_rig, session)
                [question] = waiting["questions"]
                assert [one["label"] for one in question["options"]] == ["Allow", "Deny"]
                answer = {
                    "request_id": waiting["request_id"],
                    "answers": {question["question"]: label},
                }
                status, said = await call(daemon_rig, "POST", f"/api/chat/{session}/answer", answer)
                assert status == 200, said
            found = reading.result()
            assert waiting["request_id"] in [
                one["requestId"] for _, one in found if one["type"] == "user_question"
            ]
            last = found[-1][1]
            if label == "Deny":
                assert "error" in last["type"], last
                assert len(model.asked) == 1
        assert last["response"] == "As you allowed."

        body = {"message": "Go on.", "sessionId": session}
        found = await events(daemon_rig, "POST", "/api/chat", body)
        assert found[-1][1]["response"] == "Still allowed."
        assert "user_question" not in [one["type"] for _, one in found]
        pending = f"/api/chat/{session}/pending-questions"
        assert (await call(daemon_rig, "GET", pending))[1]["pending"] == []
