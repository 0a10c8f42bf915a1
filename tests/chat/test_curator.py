"""The curator of a conversation: without a model, and what an app reads of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from parachuted.errors import AgentUnavailableError, EditRefusedError, NotFoundError
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import conversations, running_chat, session
from tests.chat.talks import eventually, talk


async def test_without_a_model_it_gives_title_and_summary_from_the_words(vault: Path):
    async with running_chat(vault, has_model=False) as chat:
        made = await talk(chat, vault, ["Can you tell me when the beans go out?", "In May."])
        queued = await chat.request("POST", f"/{made}/curator/trigger")
        await eventually(lambda: chat.request("GET", f"/{made}/curator/messages"))
        found = await session(chat, made)

        assert queued == {"status": "queued"}
        assert found["title"] == "When the beans go out?"
        assert found["metadata"]["title_source"] == "ai"
        assert found["summary"].endswith(": In May.")
        assert found["curatorLastRun"] == found["metadata"]["curator_last_run"]
        last = found["curatorLastRun"]
        assert last["exchange_number"] == 1
        assert last["actions"] == ["update_title", "update_summary", "log_activity"]
        assert last["new_title"] == found["title"]
        (day,) = (vault / ".parachute/activity").glob("*.jsonl")
        assert '"exchange_number": 1' in day.read_text()


async def test_a_title_that_the_person_gave_stays(vault: Path):
    async with running_chat(vault, has_model=False) as chat:
        made = await talk(chat, vault, ["When do the beans go out?", "In May."])
        await chat.request("PATCH", f"/{made}", body={"title": "Mine"})
        await chat.request("POST", f"/{made}/curator/trigger")
        await eventually(lambda: chat.request("GET", f"/{made}/curator/messages"))
        found = await session(chat, made)

        assert found["title"] == "Mine"
        assert "update_title" not in found["curatorLastRun"]["actions"]


async def test_a_title_that_an_agent_gave_meanwhile_is_not_replaced_by_plain_rules(vault: Path):
    async with running_chat(vault) as chat:
        made = await talk(chat, vault, ["When do the beans go out?", "In May."])
        curator = chat._host._module.curator

        async def fail_after_the_agent_set_a_title(*_given: object) -> None:
            await curator.set_title(made, "The plan")
            raise AgentUnavailableError("the model could not be reached")

        curator._ask = fail_after_the_agent_set_a_title
        await chat.request("POST", f"/{made}/curator/trigger")
        await eventually(lambda: chat.request("GET", f"/{made}/curator/messages"))

        assert (await session(chat, made))["title"] == "The plan"


async def test_runs_of_one_session_follow_each_other(vault: Path):
    async with running_chat(vault, has_model=False) as chat:
        made = await talk(chat, vault, ["When do the beans go out?", "In May."])
        curator = chat._host._module.curator  # what its turns call
        at_work, most = 0, 0

        async def observe(*_given: object) -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0)
            at_work -= 1

        async def unasked(*_given: object) -> None:
            await asyncio.sleep(0)

        curator._observe = observe
        curator._sessions = SimpleNamespace(check_can_change=unasked, get=unasked)

        async def twice() -> None:
            await curator.observe(made, None)
            await curator.observe(made, None)

        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(twice())

    assert most == 1


async def test_what_it_was_shown_and_did_is_a_conversation_of_its_own(vault: Path):
    prompt = vault / "Chat/.agents/curator.md"
    prompt.parent.mkdir(parents=True)
    prompt.write_text("---\nfor: me\n---\nUse haiku.\n")
    async with running_chat(vault, answers=lambda _agent, _prompt: "done") as chat:
        made = await talk(chat, vault, ["When do the beans go out?", "In May."])
        await chat.request("POST", f"/{made}/curator/trigger")
        found = await eventually(lambda: chat.request("GET", f"/{made}/curator/messages"))
        asked, answered = found["messages"]

        assert (asked["role"], answered["role"]) == ("user", "assistant")
        assert "When do the beans go out?" in asked["content"]
        assert answered["content"] == "done"
        assert [one["name"] for one in answered["tool_calls"]] == [
            "update_title",
            "update_summary",
            "log_activity",
        ]
        assert all(isinstance(one["input"], dict) for one in answered["tool_calls"])
        ((agent, shown),) = chat.asked
        assert agent == "curator"
        assert "Use haiku." in shown.partition("The person:")[0]


async def test_nothing_is_there_before_it_ran(chat: ModuleHarness, vault: Path):
    made = await talk(chat, vault, ["Hello there"])

    with pytest.raises(NotFoundError):
        await chat.request("GET", f"/{made}/curator/messages")
    with pytest.raises(EditRefusedError, match="no exchange"):
        await chat.request("POST", f"/{made}/curator/trigger")
    with pytest.raises(NotFoundError):
        await chat.request("POST", "/none/curator/trigger")


@pytest.mark.parametrize("tool", ["update_session_title", "update_title"])
async def test_outside_a_conversation_a_title_has_no_session(chat: ModuleHarness, tool: str):
    with pytest.raises(NotFoundError, match="no conversation here"):
        await chat.tool(tool, title="Beans")


async def test_sessions_are_found_read_tagged_and_written_to_by_tools(
    chat: ModuleHarness, vault: Path
):
    made = await talk(chat, vault, ["When do the beans go out?", "In May."])
    other = (await conversations(chat).create("Cars"))["id"]

    page = await chat.tool("chat-sessions", query="beans")
    assert [one["id"] for one in page["sessions"]] == [made]
    assert len((await chat.tool("chat-sessions"))["sessions"]) == 2
    assert await chat.tool("chat-tag", tag="garden", session_id=made) == {"tags": ["garden"]}
    assert [one["id"] for one in (await chat.tool("chat-sessions", tag="garden"))["sessions"]] == [
        made
    ]
    assert await chat.tool("chat-untag", tag="garden", session_id=made) == {"tags": []}
    read = await chat.tool("chat-session", session_id=made, messages=1)
    assert read["last"][0]["content"] == "In May."
    with pytest.raises(NotFoundError):
        await chat.tool("chat-session", session_id="none")
    with pytest.raises(NotFoundError, match="no conversation here"):
        await chat.tool("chat-create", title="Child")
    context = await chat.tool("chat-context", session_id=other)
    assert context == {"session_id": other, "folders": [], "files": []}
