"""A message that is not acknowledged is written by nobody; a stranger's marks the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.access.caller import Caller, WorkRequest, acting
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.errors import ActRefusedError
from parachuted.keys import EVERYWHERE
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import conversations, files, sessions_of, texts
from tests.module_files import chat_file


async def test_a_strangers_words_mark_the_file_and_the_next_stay_marked(
    chat: ModuleHarness, vault: Path
):
    made = str((await conversations(chat).create("Beans"))["id"])
    bots = Caller()
    bots.taint.read("a message")
    with acting(bots):
        await sessions_of(chat).append(made, _message("Two"))

    await conversations(chat).add_message(made, "Three", "parachute")

    assert await texts(chat, made) == ["Two", "Three"]
    (name,) = files(vault)
    assert "\norigin: stranger\n" in (vault / "Chat/sessions" / name).read_text()


async def test_a_caller_who_may_not_write_hears_so_and_it_is_written_by_no_other(
    chat: ModuleHarness,
):
    made = str((await conversations(chat).create("Beans"))["id"])
    reads_only = Caller(
        request=WorkRequest(by="person", key="k1"),
        grant=CallerGrant(reads=EVERYWHERE, writes=grant_of(["Notes/**"])),
    )
    with acting(reads_only), pytest.raises(ActRefusedError):
        await sessions_of(chat).append(made, _message("Two"))
    await conversations(chat).add_message(made, "Three", "parachute")

    assert await texts(chat, made) == ["Three"]


def _message(words: str):
    return chat_file("messages").Message(id=f"m-{words}", role="user", content=words)
