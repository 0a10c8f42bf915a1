"""The curator of a conversation: without a model, and what an app reads of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from parachuted.errors import AgentUnavailableError, EditRefusedError, NotFoundError
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import acting_as_owner, conversations, running_chat, session
from tests.chat.talks import eventually, talk
from tests.module_files import chat_file


class UnavailableAgent:
    """In place of `Module.agent`: it does something, and then no model can be asked."""

    def __init__(self, work: Callable[[], Awaitable[object]]) -> None:
        self._work = work

    def __call__(self, _name: str) -> UnavailableAgent:
        return self

    async def start(self, *_asked: object, **_options: object) -> None:
        await self._work()
        raise AgentUnavailableError("the model could not be reached")


SAID = ["Can you tell me when the beans go out?", "In May."]


async def curated(chat: ModuleHarness, session_id: str) -> Any:
    """The curator's messages, once it has run since it was asked to."""
    assert await chat.request("POST", f"/{session_id}/curator/trigger") == {"status": "queued"}
    return await eventually(lambda: chat.request("GET", f"/{session_id}/curator/messages"))


async def test_without_a_model_it_gives_title_and_summary_from_the_words(vault: Path):
    async with running_chat(vault, has_model=False) as chat:
        empty = await talk(chat, vault, ["Hello there"])
        with pytest.raises(NotFoundError):
            await chat.request("GET", f"/{empty}/curator/messages")
        with pytest.raises(EditRefusedError, match="no exchange"):
            await curated(chat, empty)
        with pytest.raises(NotFoundError):
            await curated(chat, "none")
        made = await talk(chat, vault, SAID)
        await curated(chat, made)
        found = await session(chat, made)

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

        other = await talk(chat, vault, SAID)
        await chat.request("PATCH", f"/{other}", body={"title": "Mine"})
        await curated(chat, other)
        found = await session(chat, other)
        assert found["title"] == "Mine", "which a person gave"
        assert "update_title" not in found["curatorLastRun"]["actions"]


async def test_runs_of_one_session_follow_each_other_and_keep_an_agents_title(vault: Path):
    exchange = chat_file("curator").Exchange(number=1, question="Beans?", answer="In May.")
    async with running_chat(vault) as chat:
        made = await talk(chat, vault, SAID)
        give_title = partial(chat.instance.curator.set_title, made, "The plan")
        chat.instance.agent = UnavailableAgent(give_title)
        await curated(chat, made)
        assert (await session(chat, made))["title"] == "The plan", "plain rules do not replace it"
        at_work, most = 0, 0

        async def work() -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0)
            at_work -= 1

        chat.instance.agent = UnavailableAgent(work)
        with acting_as_owner():
            async with asyncio.TaskGroup() as group:
                for _ in range(4):
                    group.create_task(chat.instance.curator.observe(made, exchange))

    assert most == 1


async def test_what_it_was_shown_and_did_is_a_conversation_of_its_own(vault: Path):
    prompt = vault / "Chat/.agents/curator.md"
    prompt.parent.mkdir(parents=True)
    prompt.write_text("---\nfor: me\n---\nUse haiku.\n")
    async with running_chat(vault, answers=lambda _agent, _prompt: "done") as chat:
        made = await talk(chat, vault, SAID)
        asked, answered = (await curated(chat, made))["messages"]

        assert (asked["role"], answered["role"]) == ("user", "assistant")
        assert SAID[0] in asked["content"]
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


async def test_sessions_are_found_read_tagged_and_written_to_by_tools(
    chat: ModuleHarness, vault: Path
):
    made = await talk(chat, vault, SAID)
    other = (await conversations(chat).create("Cars"))["id"]

    page = await chat.tool("chat-sessions", query="beans")
    assert [one["id"] for one in page["sessions"]] == [made]
    assert len((await chat.tool("chat-sessions"))["sessions"]) == 2
    assert await chat.tool("chat-tag", tag="garden", session_id=made) == {"tags": ["garden"]}
    page = await chat.tool("chat-sessions", tag="garden")
    assert [one["id"] for one in page["sessions"]] == [made]
    assert await chat.tool("chat-untag", tag="garden", session_id=made) == {"tags": []}
    read = await chat.tool("chat-session", session_id=made, messages=1)
    assert read["last"][0]["content"] == "In May."
    context = await chat.tool("chat-context", session_id=other)
    assert context == {"session_id": other, "folders": [], "files": []}
    with pytest.raises(NotFoundError):
        await chat.tool("chat-session", session_id="none")
    for tool in ("update_session_title", "update_title"):
        with pytest.raises(NotFoundError, match="no conversation here"):
            await chat.tool(tool, title="Beans")
    half = "\ud800"  # of a character
    for tool, more in (
        ("chat-context", {}),
        ("chat-tag", {"tag": "garden"}),
        ("chat-untag", {"tag": "garden"}),
    ):
        with pytest.raises(NotFoundError):
            await chat.tool(tool, session_id=half, **more)
