"""Turns in a daemon: over HTTP, with Claude Code's CLI and a scripted model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from parachuted.testing import ScriptedMessages, use
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


QUESTION = {"question": "Which bed?", "header": "Bed", "options": [{"label": "Left"}]}


async def stop_and_retry(
    daemon_rig: DaemonRig, model: Model, session: str, after: str | None
) -> None:
    """A turn is stopped, of which the asker and two followers see the same end."""
    chat, asked = f"/api/chat/{session}", len(model.asked)
    body = {"message": "Think long.", "sessionId": session}
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(events(daemon_rig, "POST", "/api/chat", body))
        await daemon_rig.until(lambda: len(model.asked) > asked, 60)
        follow = f"{chat}/stream?after={after}"
        following = [group.create_task(events(daemon_rig, "GET", follow)) for _ in range(2)]
        streams = (await get(daemon_rig, "/api/chat/active-streams"))["streams"]
        assert streams == [{"session_id": session}]
        assert await code(daemon_rig, "POST", "/api/chat", json=body) == 409
        assert await code(daemon_rig, "POST", f"{chat}/abort") == 200
    ends = [one.result()[-1] for one in (asking, *following)]
    assert [end["type"] for _, end in ends] == ["aborted"] * 3
    assert len({event_id for event_id, _ in ends}) == 1
    again = await events(daemon_rig, "POST", f"{chat}/retry")
    assert again[-1][1]["response"] == "Still here."


async def test_a_conversation_streams_is_stopped_asks_and_outlives_a_restart(talking, vault):
    (vault / "Garden").mkdir()
    (vault / "Garden/AGENTS.md").write_text("# Garden\n\nBeans are on the left bed.\n")
    asks = [use("AskUserQuestion", questions=[QUESTION])]
    last = ("The left one.", "It is November.")
    model = Model("On the left bed.", "Since May.", "", "Still here.", asks, *last)
    async with ScriptedMessages([model] * 100) as api:
        async with talking(api) as daemon_rig, asyncio.TaskGroup() as group:
            await install_official(daemon_rig, "chat")
            body = {"message": "Where are the beans?", "module": "chat", "contexts": ["Garden"]}
            found = await events(daemon_rig, "POST", "/api/chat", body)
            kinds = [one["type"] for _, one in found]
            assert kinds[:2] == ["session", "session"]
            assert kinds[-1] == "done", found[-1]
            assert all(event_id for event_id, _ in found)
            done = found[-1][1]
            session = done["sessionId"]
            chat = f"/api/chat/{session}"
            assert done["response"] == "On the left bed."
            assert "Beans are on the left bed." in model.asked[0]
            body = {"message": "Since when?", "sessionId": session}
            found = await events(daemon_rig, "POST", "/api/chat", body)
            assert found[-1][1]["sessionResume"]["method"] == "sdk_resume"
            assert "On the left bed." in model.asked[1]
            assert await get(daemon_rig, f"{chat}/stream-status") == {"active": False}
            for method, path in (("POST", "abort"), ("GET", "stream"), ("POST", "retry")):
                await expect(daemon_rig, 404, method, f"/api/chat/nobody/{path}")

            await stop_and_retry(daemon_rig, model, session, found[-1][0])
            shown = await get(daemon_rig, chat)
            assert [one["role"] for one in shown["messages"]] == ["user", "assistant"] * 3

            body = {"message": "Where do the peas go?", "sessionId": session}
            asking = group.create_task(events(daemon_rig, "POST", "/api/chat", body))
            waiting = await waiting_question(daemon_rig, session)
            body = {"request_id": waiting["request_id"], "answers": {"Which bed?": "Left"}}
            assert await code(daemon_rig, "POST", f"{chat}/answer", json=body) == 200
            assert (await asking)[-1][1]["response"] == "The left one."
            assert (await get(daemon_rig, f"{chat}/pending-questions"))["pending"] == []
            assert await code(daemon_rig, "POST", f"{chat}/answer", json=body) == 404
        async with talking(api) as daemon_rig:
            found = await turn(daemon_rig, "And now?", session)
            assert found[-1]["response"] == "It is November."
            assert "Since May." in model.asked[-1]


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
