"""The rows of the app's contract for sessions, read as strictly as the app reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parachuted.testing import ModuleHarness
from tests.chat.app_decoder import decode_message, decode_session
from tests.chat.chat_of import acting_as_owner, conversations, sessions_of
from tests.module_files import chat_file

# a name that ends with ? may be null; s text, t time, i integer, b boolean, o object


async def _full(chat: ModuleHarness) -> str:
    """A session in which every field has a value, and a message of each kind."""
    code = chat_file("messages")
    made = str((await conversations(chat).create("Beans"))["id"])
    with acting_as_owner():
        await sessions_of(chat).change(
            made,
            summary="About beans",
            tags=["garden"],
            agent="Agents/gardener.md",
            model="model-a",
            workspace="garden",
            working_directory="Projects/garden",
            linked_bot=chat_file("session").LinkedBot(
                platform="telegram", chat_id="12", chat_type="dm"
            ),
            continued_from="earlier",
            parent_id="parent",
            original_id="original",
            curator_session_id="curator",
            curator_last_run={
                "ts": "2026-11-23T10:00:00Z",
                "exchange_number": 3,
                "actions": ["title"],
                "new_title": None,
            },
            metadata={"pending_initialization": True},
        )
        for role, tools in (
            ("user", ()),
            ("assistant", (code.ToolUse(id="t", name="Read", input={"path": "a.md"}),)),
        ):
            await sessions_of(chat).append(
                made, code.Message(id=f"m-{role}", role=role, content="Hi", tools=tools)
            )
    return made


async def test_every_row_for_sessions_is_as_the_app_decodes_it(chat: ModuleHarness, vault: Path):
    empty, full = (await conversations(chat).create())["id"], await _full(chat)
    (vault / "Chat/sessions/by hand.md").write_text("Words of a person.\n")
    await chat.event("file.created", path="Chat/sessions/by hand.md")

    listed: Any = await chat.request("GET", "/", query={"limit": "500"})
    assert len([decode_session(one) for one in listed["sessions"]]) == 3
    for session_id in (empty, full):
        found: Any = await chat.request("GET", f"/{session_id}")
        decode_session(found)
        for message in found["messages"]:
            decode_message(message)

    for method, path, body in (
        ("PATCH", "", {"title": "Peas", "contextFolders": ["Projects/a"], "tags": []}),
        ("POST", "/archive", {}),
        ("POST", "/unarchive", {}),
        ("PATCH", "/config", {"trustLevel": "untrusted", "configOverrides": {"a": 1}}),
        (
            "POST",
            "/activate",
            {
                "trustLevel": "direct",
                "workspaceId": "home",
                "responseMode": "mention",
                "mentionPattern": "@me",
            },
        ),
        ("POST", "/fork", {"messageId": "m-user"}),
        ("POST", "/continue", {}),
    ):
        answer: Any = await chat.request(method, f"/{full}{path}", body=body)
        decode_session(answer["session"])
    activated: Any = await chat.request("GET", f"/{full}")
    assert "pending_initialization" not in activated["metadata"]
    assert activated["metadata"]["bot_settings"] == {
        "response_mode": "mention",
        "mention_pattern": "@me",
    }
    assert activated["trustLevel"] == "direct"
    deleted: Any = await chat.request("DELETE", f"/{full}")
    assert deleted["id"] == full
