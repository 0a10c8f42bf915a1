"""Imports: other programs' conversations become sessions, once, and can be taken back whole."""

from __future__ import annotations

import asyncio
import copy
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parachuted.errors import EditRefusedError
from parachuted.modules.results import to_json
from parachuted.testing import ModuleHarness
from tests.chat.app_decoder import decode_session
from tests.chat.chat_of import files, running_chat, session
from tests.chat.exports import CHATGPT, CLAUDE
from tests.module_files import chat_file
from tests.odd_json import with_odd_members

importing = chat_file("importing")


async def _imported(chat: ModuleHarness, data: object, **options: object) -> Any:
    return await chat.request("POST", "/api/import/", body={"data": data, **options})


async def test_the_branch_that_was_shown_and_what_was_attached_are_imported(
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
    with pytest.raises(EditRefusedError, match="no conversation"):
        await _imported(chat, [])


@pytest.mark.parametrize("data", [{}, [3], {"mapping": {}}, [{"chat_messages": [None]}], "x"])
def test_what_is_not_an_export_is_reported(data: object):
    found, problems = importing.read_export(data)

    assert not found
    assert problems[0].path == "conversation 1"


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


BEANS = CHATGPT[0]


async def test_an_odd_branch_costs_nothing_of_what_stands_beside_it(chat: ModuleHarness):
    odd_ones: list[object] = [[], ["d"], {"id": "d"}, 7]
    for number, (member, odd) in enumerate(product(("current_node", "parent"), odd_ones)):
        broken = copy.deepcopy(BEANS) | {"conversation_id": f"broken-{number}"}
        (broken if member == "current_node" else broken["mapping"]["c"])[member] = odd

        report = await _imported(chat, [broken, CLAUDE[0] | {"uuid": f"good-{number}"}])

        counts = report["total_conversations"], report["imported_count"], report["errors"]
        assert counts == (2, 2, []), (member, odd)
        assert bool(report["warnings"]) is bool(odd)
        found = await session(chat, report["session_ids"][0])
        assert found["messages"][-1]["content"].startswith("<!-- message")


async def test_unreadable_messages_are_named_and_a_repeated_id_loses_no_words(
    chat: ModuleHarness,
):
    said = {"uuid": "same", "sender": "human", "text": "One."}
    messages = [said, said | {"text": "Two."}, said | {"text": 7}, {"sender": ["human"]}, None]

    report = await _imported(chat, [{"uuid": "a", "name": "T", "chat_messages": messages}])

    found = await session(chat, report["session_ids"][0])
    assert [one["content"] for one in found["messages"]] == ["One.", "Two."]
    assert [one.partition(": ")[0] for one in report["warnings"]] == [
        f"T, message {number}" for number in (3, 4, 5)
    ]


async def test_a_time_that_no_calendar_has_here_is_not_known(chat: ModuleHarness):
    for at in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", 1e300, True, []):
        report = await _imported(chat, [CLAUDE[0] | {"uuid": f"at {at}", "created_at": at}])

        assert (report["imported_count"], report["errors"]) == (1, []), at


async def test_what_an_export_holds_twice_or_cannot_be_written_is_counted_once(
    chat: ModuleHarness, vault: Path
):
    huge = {"uuid": "h", "chat_messages": [{"sender": "human", "text": "x" * (17 << 20)}]}
    long = CLAUDE[0] | {"uuid": "long", "name": "😀" * 200}
    data = [huge, long, CLAUDE[0], CLAUDE[0]]

    plan, report = await _imported(chat, data, dry_run=True), await _imported(chat, data)

    assert (plan["skipped_count"], plan["errors"]) == (1, [])
    assert (report["imported_count"], report["skipped_count"]) == (2, 1)
    assert "larger than 16 MB" in report["errors"][0]
    assert len(report["conversations"]) == 3
    assert len(files(vault)) == 2


_ODD_ONES = st.lists(
    st.one_of(*(with_odd_members(one) for one in (BEANS, CLAUDE[0], CLAUDE_CODE))),
    min_size=10,
    max_size=20,
)


@settings(max_examples=10, deadline=None)
@given(_ODD_ONES)
def test_good_conversations_are_imported_and_all_are_counted(
    odd: list[object],
):
    good = [
        copy.deepcopy(BEANS) | {"conversation_id": "good-1"},
        CLAUDE[0] | {"uuid": "good-2"},
        CLAUDE_CODE | {"sessionId": "good-3"},
    ]
    data = [good[0], *odd[:5], good[1], *odd[5:], good[2]]

    async def imports() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with running_chat(Path(folder)) as module:
                report = await _imported(module, data)
                done = (report["imported_count"], report["skipped_count"], len(report["errors"]))
                assert report["total_conversations"] == len(data) == sum(done)
                assert "mistake of the module" not in str(to_json(report))
                wanted = {
                    importing.session_id_of(source, f"good-{number}")
                    for number, source in enumerate(("chatgpt", "claude", "claude-code"), 1)
                }
                assert wanted <= set(report["session_ids"])
                for session_id in report["session_ids"]:
                    decode_session(await session(module, session_id))
                again = await _imported(module, data)
                assert (again["imported_count"], again["errors"]) == (0, report["errors"])

    asyncio.run(imports())
