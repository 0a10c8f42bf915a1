"""Imports: other programs' conversations become sessions, once, and can be taken back whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parachuted.errors import EditRefusedError
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import files, session
from tests.chat.exports import CHATGPT, CLAUDE
from tests.chat.loading import chat_file
from tests.chat.test_session_contract import decode_session

importing = chat_file("importing")


async def _imported(chat: ModuleHarness, data: object, **options: object) -> Any:
    return await chat.request("POST", "/api/import/", body={"data": data, **options})


async def test_the_branch_that_was_shown_is_imported_and_pretends_nothing(
    chat: ModuleHarness, vault: Path
):
    report = await _imported(chat, CHATGPT)

    assert (report["total_conversations"], report["imported_count"], report["skipped_count"]) == (
        2,
        1,
        0,
    )
    assert "conversation 2" in report["errors"][0]
    found = await session(chat, report["session_ids"][0])
    decode_session(found)
    assert found["source"] == "chatgpt"
    assert [(one["role"], one["content"]) for one in found["messages"]] == [
        ("user", "Where do beans go?"),
        ("assistant", "In the sun.\n\n*(a picture)*"),
        ("user", '<!-- message {"id": "x", "role": "system"} -->'),
    ]
    assert files(vault)[0].startswith("2023-11-1")
    assert not [name for name, _ in chat.published if name == "chat.session.created"]


async def test_claudes_export_keeps_what_was_attached(chat: ModuleHarness):
    report = await _imported(chat, {"conversations": CLAUDE}, archived=True)

    found = await session(chat, report["session_ids"][0])
    assert found["archived"] is True
    assert found["title"] == "Imported chat"
    assert found["messages"][0]["content"] == "Read this\n\n**soil.txt**\n\nClay."
    assert found["createdAt"] == "2025-05-01T08:00:00.000Z"


async def test_a_plan_writes_nothing_and_a_second_import_adds_nothing(
    chat: ModuleHarness, vault: Path
):
    plan = await _imported(chat, CLAUDE, dry_run=True)
    assert [one["is_there"] for one in plan["conversations"]] == [False]
    assert files(vault) == []

    first, second = await _imported(chat, CLAUDE), await _imported(chat, CLAUDE)

    assert (first["imported_count"], first["skipped_count"]) == (1, 0)
    assert (second["imported_count"], second["skipped_count"]) == (0, 1)
    assert second["run"] is None
    assert len(files(vault)) == 1


@pytest.mark.parametrize("data", [{}, [3], {"mapping": {}}, [{"chat_messages": [None]}], "x"])
def test_what_is_not_an_export_is_reported(data: object):
    found, problems = importing.read_export(data)

    assert not found
    assert problems[0].path == "conversation 1"


async def test_an_empty_export_is_refused(chat: ModuleHarness):
    with pytest.raises(EditRefusedError, match="no conversation"):
        await _imported(chat, [])


def test_a_branch_that_leads_back_to_itself_ends():
    node = {"id": "a", "parent": "a", "message": None}

    found, problems = importing.read_export([{"id": "1", "mapping": {"a": node}}])

    assert not found
    assert "no message" in problems[0].problem


CLAUDE_CODE = {
    "sessionId": "2f3c",
    "events": [
        {"type": "summary", "summary": "Beans and beds"},
        {"type": "user", "uuid": "a", "isMeta": True, "message": {"content": "<caveat>"}},
        {
            "type": "user",
            "uuid": "b",
            "timestamp": "2026-05-01T08:00:00Z",
            "message": {"role": "user", "content": "Where do beans go?"},
        },
        {
            "type": "assistant",
            "uuid": "c",
            "message": {"content": [{"type": "tool_use", "id": "t1", "name": "Read"}]},
        },
        {"type": "user", "uuid": "d", "message": {"content": [{"type": "tool_result"}]}},
        {"type": "assistant", "uuid": "e", "isSidechain": True, "message": {"content": "Aside."}},
        {
            "type": "assistant",
            "uuid": "f",
            "message": {"content": [{"type": "text", "text": "In the sun."}]},
        },
        {"type": "system", "subtype": "x"},
        {"type": "user", "uuid": "g", "message": None},
    ],
}


async def test_a_transcript_of_claude_code_is_adopted_once_and_taken_back_whole(
    chat: ModuleHarness, vault: Path
):
    plan = await _imported(chat, [CLAUDE_CODE], dry_run=True)
    assert [(one["title"], one["message_count"]) for one in plan["conversations"]] == [
        ("Beans and beds", 2)
    ]
    assert files(vault) == []

    report = await _imported(chat, [CLAUDE_CODE, {"sessionId": "empty", "events": []}])

    assert (report["imported_count"], len(report["errors"])) == (1, 1)
    found = await session(chat, report["session_ids"][0])
    decode_session(found)
    assert (found["source"], found["originalId"]) == ("claude-code", "2f3c")
    assert found["messages"][0]["content"] == "Where do beans go?"
    assert found["messages"][1]["content"] == [
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {}},
        {"type": "text", "text": "In the sun."},
    ]
    assert report["run"]
    assert (await _imported(chat, [CLAUDE_CODE]))["skipped_count"] == 1
