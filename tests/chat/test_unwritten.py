"""A message that was acknowledged is never lost, also where its file refuses it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parachuted.access.caller import Caller, WorkRequest, acting
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.errors import ActRefusedError, EditRefusedError
from parachuted.keys import EVERYWHERE
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import (
    conversations,
    files,
    restarted,
    session,
    sessions_of,
    texts,
)
from tests.module_files import chat_file

FOLDER = "Chat/sessions"


@contextmanager
def unreadable(vault: Path) -> Iterator[Path]:
    """Inside, the only session's file is no text; afterwards it is as it was."""
    (name,) = files(vault)
    path = vault / FOLDER / name
    text = path.read_bytes()
    path.write_bytes(b"caf\xe9\n" + text)
    yield path
    path.write_bytes(text)


async def made_with(chat: ModuleHarness, *said: str) -> str:
    made = str((await conversations(chat).create("Beans"))["id"])
    for words in said:
        await conversations(chat).add_message(made, words, "parachute")
    await session(chat, made)
    return made


async def refused(chat: ModuleHarness, session_id: str, words: str) -> None:
    """Add a message that is acknowledged, and wait until the file has refused it."""
    await conversations(chat).add_message(session_id, words, "parachute")
    with pytest.raises(EditRefusedError):
        await session(chat, session_id)


async def test_what_a_file_refuses_is_kept_until_written_or_its_session_goes(
    chat: ModuleHarness, vault: Path
):
    made = await made_with(chat, "One")
    with unreadable(vault) as path:
        await refused(chat, made, "Two")
        await refused(chat, made, "Three")
        found = [one for one in await chat.doctor() if "2 messages are" in one.problem]
        assert [one.path for one in found] == [f"{FOLDER}/{path.name}"]
        assert "they are kept" in found[0].advice
    await conversations(chat).add_message(made, "Four", "parachute")
    assert await texts(chat, made) == ["One", "Two", "Three", "Four"]
    assert await chat.doctor() == []

    with unreadable(vault):
        await refused(chat, made, "Five")
        async with restarted(chat):
            pass
        assert any("1 message is" in one.problem for one in await chat.doctor())
    async with restarted(chat) as data_folder:
        log = data_folder / "appends.jsonl"
    assert (await texts(chat, made))[3:] == ["Four", "Five"]
    assert not log.exists()

    with unreadable(vault):
        await refused(chat, made, "Six")
    await chat.request("DELETE", f"/{made}")
    async with restarted(chat):
        assert not log.exists() or not log.read_text()


async def test_a_strangers_words_count_as_theirs_after_a_crash(chat: ModuleHarness, vault: Path):
    made = await made_with(chat, "One")
    said = {"id": "m2", "role": "user", "content": "Two", "at": None, "tools": [], "meta": {}}

    async with restarted(chat) as data_folder:
        line = json.dumps({"session": made, "message": said, "origin": "bot"})
        (data_folder / "appends.jsonl").write_text(f"{line}\n")

    assert await texts(chat, made) == ["One", "Two"]
    assert "\norigin: stranger\n" in (vault / FOLDER / files(vault)[0]).read_text()


async def test_a_strangers_words_stay_theirs_in_anothers_message(chat: ModuleHarness, vault: Path):
    made = await made_with(chat, "One")
    with unreadable(vault):
        bots = Caller()
        bots.taint.read("a message")
        with acting(bots):
            await sessions_of(chat).append(made, _message("Two"))
        with pytest.raises(EditRefusedError):
            await session(chat, made)
        assert "origin:" not in (vault / FOLDER / files(vault)[0]).read_text("latin-1")

    await conversations(chat).add_message(made, "Three", "parachute")

    assert await texts(chat, made) == ["One", "Two", "Three"]
    assert "\norigin: stranger\n" in (vault / FOLDER / files(vault)[0]).read_text()


async def test_a_caller_who_may_not_write_hears_so_and_it_is_written_by_no_other(
    chat: ModuleHarness,
):
    made = await made_with(chat, "One")
    reads_only = Caller(
        request=WorkRequest(by="person", key="k1"),
        grant=CallerGrant(reads=EVERYWHERE, writes=grant_of(["Notes/**"])),
    )
    with acting(reads_only), pytest.raises(ActRefusedError):
        await sessions_of(chat).append(made, _message("Two"))
    await conversations(chat).add_message(made, "Three", "parachute")

    assert await texts(chat, made) == ["One", "Three"]


def _message(words: str):
    return chat_file("messages").Message(id=f"m-{words}", role="user", content=words)
