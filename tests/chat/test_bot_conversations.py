"""The ConversationInterface as a bot uses it: links, changed messages, turns by their events."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import AgentNarrowing, AgentSkill
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import acting_as_owner, conversations, files, sessions_of, texts
from tests.chat.scripted_runs import ask, scripted_chat, words
from tests.module_files import chat_file

TurnRequest = chat_file("turn").TurnRequest
LINK = {"platform": "matrix", "chat_id": "!room:server", "chat_type": "dm"}
ID = "abc123def456"


async def linked(chat: ModuleHarness, title: str = "Matrix: direct message") -> dict[str, Any]:
    found: dict[str, Any] = await conversations(chat).create(title=title, linked_bot=LINK)
    return found


async def test_a_chats_session_keeps_its_title_until_the_curator_has_one(
    chat: ModuleHarness, vault: Path
):
    made = await linked(chat)
    assert "Matrix direct message" in files(vault)[0]
    with acting_as_owner():
        await sessions_of(chat).change(made["id"], title="Beans", title_source="ai")
    assert "Beans" in files(vault)[0]


async def test_a_link_is_moved_and_taken_away(chat: ModuleHarness):
    service, first = conversations(chat), await linked(chat)
    second = await service.create(title="Garden plans")
    await service.link(second["id"], LINK)
    assert (await service.get_by_bot_link("matrix", "!room:server"))["id"] == second["id"]
    assert (await service.get(first["id"]))["linkedBotChatId"] is None
    await service.link(second["id"], None)
    assert await service.get_by_bot_link("matrix", "!room:server") is None


GROUP = {"platform": "matrix", "chat_id": "!group:server", "chat_type": "group"}
NOTHING = {"allowed_folders": [], "allowed_mcps": [], "capabilities": ["Read"]}
GARDEN = {"allowed_folders": ["Garden"], "allowed_mcps": ["brain-search"], "capabilities": ["Read"]}
SECRETS = (
    "AGENTS.md",
    "Diary/AGENTS.md",
    ".agents/coach.md",
    "Diary/.agents/coach.md",
    ".claude/skills/gossip/SKILL.md",
)


async def from_page(chat: ModuleHarness, session_id: str) -> None:
    folder = {"workingDirectory": "Diary", "contexts": ["Diary", "Garden"], "agentPath": SECRETS[2]}
    await ask(chat, "Tell all", session_id, **folder)


async def again(chat: ModuleHarness, session_id: str) -> None:
    await chat.request("POST", f"/{session_id}/retry")


async def by_a_module(chat: ModuleHarness, session_id: str) -> None:
    await conversations(chat).send_message(session_id, "Tell all")


async def by_commands(chat: ModuleHarness, session_id: str) -> None:
    for words_of_command in ("/maintenance", "/gossip", "@coach tell all"):
        await ask(chat, words_of_command, session_id)


async def by_a_module_that_says_the_chat(chat: ModuleHarness, session_id: str) -> None:
    """The session's file says that it belongs to no chat."""
    service = conversations(chat)
    await service.link(session_id, None)
    chat_id = GROUP["chat_id"]
    begun = await service.start_turn(session_id, "@coach tell all", "matrix", chat_id=chat_id)
    while begun["events"][-1]["type"] not in {"done", "typed_error"}:
        begun = await service.turn_events(session_id, begun["after"])


DOORS = (from_page, again, by_a_module, by_commands, by_a_module_that_says_the_chat)


@pytest.mark.parametrize("limit", [NOTHING, GARDEN, None], ids=["nothing", "garden", "unknown"])
@pytest.mark.parametrize("begin", DOORS, ids=[door.__name__ for door in DOORS])
async def test_no_turn_in_a_group_may_more_than_the_group_whoever_begins_it(
    vault: Path, begin: Any, limit: dict[str, Any] | None
):
    for path in (*SECRETS, "Garden/AGENTS.md"):
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text("Of the diary: secret" if path in SECRETS else "Of the garden")
    async with scripted_chat(vault, words("No.")) as (chat, runs):
        service = conversations(chat)
        before = await service.create(title="Before")
        await service.add_message(before["id"], "Said before: secret")
        made = await service.create(title="Matrix: Garden club", linked_bot=GROUP)
        await service.add_message(made["id"], "Hello")
        wide = {"allowed_folders": None, "allowed_mcps": None, "capabilities": ["Write", "Bash"]}
        changes: dict[str, Any] = {"permissions": wide, "mode": "trusted"}
        await chat.request("PATCH", f"/{made['id']}", body=changes)
        with acting_as_owner():
            more = {"agent": "coach", "working_directory": "Diary", "context_folders": ["Diary"]}
            more["continued_from"] = before["id"]
            await sessions_of(chat).change(made["id"], **more)
        if limit is None and begin is by_a_module_that_says_the_chat:
            limit = NOTHING
        if limit is not None:
            group = GROUP | {"permissions": limit, "mode": "sandboxed"}
            await service.limit_chats([group])
        skill = AgentSkill(name="gossip", description="", path=SECRETS[4])
        runs.skills[skill] = "Of a skill: secret"
        await begin(chat, made["id"])
        assert runs.started
        for run in runs.started:
            narrowing: AgentNarrowing = run.options["narrowing"]
            may_read = ("Garden/**",) if limit is GARDEN else ()
            assert (run.agent, narrowing.read, narrowing.write) == ("chat", may_read, ())
            assert narrowing.capabilities == ("read",)
            assert (narrowing.mcps, "chat-tag" in (narrowing.tools or ())) == (
                tuple(limit["allowed_mcps"]) if limit else (),
                False,
            )
            assert "secret" not in str(run.options)
            assert not run.options["working_directory"]
        shown = (await service.get(made["id"]))["metadata"]["permissions"]
        assert (shown["allowed_folders"] is None) == (limit is None), "its screen says so too"


async def test_a_direct_chat_may_what_its_session_says(vault: Path):
    async with scripted_chat(vault, words("Yes.")) as (chat, runs):
        service, made = conversations(chat), await linked(chat)
        body = {"permissions": GARDEN | {"capabilities": ["Write"]}}
        await chat.request("PATCH", f"/{made['id']}", body=body)
        for limit in ([], [LINK | {"permissions": None}]):
            await service.limit_chats(limit)
            await by_a_module(chat, made["id"])
            assert runs.started[-1].options["narrowing"].write == ("Garden/**",)
        await service.limit_chats([LINK | {"permissions": NOTHING, "mode": "default"}])
        await by_a_module(chat, made["id"])
        assert runs.started[-1].options["narrowing"].read == ()
        assert runs.started[-1].options["session_id"] is None, "it would know what it has read"


async def test_a_message_is_changed_in_its_place_and_its_files_stay(
    chat: ModuleHarness, vault: Path
):
    service, made = conversations(chat), await linked(chat)
    first = await service.add_message(
        made["id"], "Where are the beens?\n\n![[a.png]]\n\n![[b.png]]"
    )
    second = await service.add_message(made["id"], "<!-- message x")
    await service.change_message(made["id"], first, "Where are the beans?")
    assert await texts(chat, made["id"]) == [
        "Where are the beans?\n\n![[a.png]]\n\n![[b.png]]",
        "<!-- message x",
    ]
    await service.change_message(made["id"], second, None)
    await service.add_message(made["id"], "Thanks")
    assert (await texts(chat, made["id"]))[1:] == ["Thanks"]
    assert "<!-- message x" not in (vault / "Chat/sessions" / files(vault)[0]).read_text("utf-8")
    with pytest.raises(NotFoundError, match="has no message"):
        await service.change_message(made["id"], second, "Again")


async def test_a_turn_is_followed_by_its_events_and_said_once(vault: Path):
    async with scripted_chat(vault, words("On the left bed.")) as (chat, runs):
        service, made = conversations(chat), await linked(chat)

        async def whole_turn() -> list[dict[str, Any]]:
            begun = await service.start_turn(made["id"], "Where?", "matrix", ID)
            found = list(begun["events"])
            while found[-1]["type"] not in {"done", "typed_error"}:
                begun = await service.turn_events(made["id"], begun["after"])
                found += begun["events"]
            return found

        first, second = await whole_turn(), await whole_turn()
        assert [one[-1]["response"] for one in (first, second)] == ["On the left bed."] * 2
        assert len(runs.started) == 1
        assert await texts(chat, made["id"]) == ["Where?", "On the left bed."]
        with pytest.raises(EditRefusedError, match="a message has"):
            await service.start_turn(made["id"], " ")
        with pytest.raises(NotFoundError):
            await service.stop_turn(made["id"])


async def test_a_turn_stopped_at_any_moment_ends_and_the_next_is_answered(vault: Path):
    async with scripted_chat(vault, words("On the left bed.")) as (chat, _runs):
        made, turns = await linked(chat), chat.instance.turns
        ends = []
        for steps in (*range(12), *range(12, 200, 8)):
            with acting_as_owner():
                stream = await turns.start(TurnRequest(message="Where?", session_id=made["id"]))
                for _ in range(steps):
                    await asyncio.sleep(0)
                with suppress(NotFoundError):
                    await turns.abort(made["id"])
                async with asyncio.timeout(20):
                    ends.append([one.data async for one in stream.read()][-1]["type"])
        assert set(ends) <= {"aborted", "done"}
        assert ends[0] == "aborted"
        said = await conversations(chat).send_message(made["id"], "And the beans?")
        assert said["content"] == "On the left bed."


async def test_stopping_a_message_stops_the_turn_of_no_other(vault: Path):
    going = asyncio.Event()
    async with scripted_chat(vault, (going, *words("On the left bed."))) as (chat, _runs):
        service, made = conversations(chat), await linked(chat)
        begun = await service.start_turn(made["id"], "Where?", "matrix", ID)
        with pytest.raises(NotFoundError):
            await service.stop_turn(made["id"], "an earlier one")
        going.set()
        ends: list[str] = []
        while "done" not in ends:
            begun = await service.turn_events(made["id"], begun["after"])
            ends = [one["type"] for one in begun["events"]]
        assert await texts(chat, made["id"]) == ["Where?", "On the left bed."]


async def test_many_that_begin_at_once_with_one_title_try_each_name_once(
    chat: ModuleHarness, monkeypatch: pytest.MonkeyPatch
):
    vault, tried = chat.instance.vault, []

    async def create(path: str, text: str) -> None:
        tried.append(path)
        await make(path, text)

    make = vault.create
    monkeypatch.setattr(vault, "create", create)
    titles = ["Telegram: direct message"] * 30
    made = await asyncio.gather(*(conversations(chat).create(title=title) for title in titles))
    assert len({one["path"] for one in made}) == len(tried) == len(set(tried)) == len(titles)
