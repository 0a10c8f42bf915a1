"""A session's file that has to be mended: nothing is lost, and nothing else in it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.errors import EditRefusedError
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import (
    acting_as_owner,
    conversations,
    files,
    running_chat,
    session,
    sessions_of,
    texts,
)
from tests.chat.scripted_runs import ask, kinds, only, scripted_chat, words
from tests.module_files import chat_file

FOLDER = "Chat/sessions"
CLOSING = "\n---\n\n<!-- message"
CONFLICT = "<<<<<<< HEAD\nsummary: a\n=======\nsummary: b\n>>>>>>> other\n"


async def edited(chat: ModuleHarness, vault: Path, old: str, new: str) -> Path:
    (name,) = files(vault)
    path = vault / FOLDER / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    await chat.event("file.modified", path=f"{FOLDER}/{name}")
    return path


async def test_a_message_is_refused_until_the_frontmatter_is_closed(
    vault: Path,
):
    async with scripted_chat(vault, words("In the sun.")) as (chat, runs):
        made = str((await ask(chat, "Where do the beans go?"))[-1]["sessionId"])
        path = await edited(chat, vault, CLOSING, "\n\n<!-- message")
        before = path.read_text()

        for _ in range(2):
            events = await ask(chat, "And the peas?", made)
            assert kinds(events)[-1] == "typed_error"
            assert path.name in only(events, "typed_error")["message"]
            assert "closes the frontmatter" in only(events, "typed_error")["message"]
        assert len(runs.started) == 1
        assert path.read_text() == before

        await edited(chat, vault, "\n\n<!-- message", CLOSING)

        assert await chat.doctor() == []
        assert kinds(await ask(chat, "And the peas?", made))[-1] == "done"
        assert (await texts(chat, made)).count("And the peas?") == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("---\n", "---\ntitle: [unclosed\nmynote: x\n"),
        ("---\n", f"---\n{CONFLICT}"),
    ],
)
async def test_a_broken_file_gets_its_messages_and_is_otherwise_left_alone(
    vault: Path, old: str, new: str
):
    async with running_chat(vault, has_model=False) as chat:
        made = str((await conversations(chat).create())["id"])
        await conversations(chat).add_message(made, "Where do the beans go?", "parachute")
        para_id = (await session(chat, made))["paraId"]
        path = await edited(chat, vault, old, new)
        before = path.read_text()

        assert kinds(await ask(chat, "And the peas?", made))[-1] == "done"
        exchange = chat_file("curator").Exchange(number=1, question="Beans?", answer="In May.")
        with acting_as_owner():
            await chat.instance.curator.observe(made, exchange)

        assert files(vault) == [path.name]
        assert path.read_text().startswith(before)
        found = await session(chat, made)
        assert found["paraId"] == para_id
        assert [one["content"] for one in found["messages"]][1] == "And the peas?"
        assert [one.path for one in await chat.doctor()] == [f"{FOLDER}/{path.name}"]
        with pytest.raises(EditRefusedError, match="until you mend it"):
            await chat.request("PATCH", f"/{made}", body={"title": "Beans"})

        await edited(chat, vault, new, old)
        await chat.request("PATCH", f"/{made}", body={"title": "Beans"})
        assert (await session(chat, made))["paraId"] == para_id


async def test_messages_and_an_editors_lines_are_all_in_the_file(
    vault: Path, monkeypatch: pytest.MonkeyPatch
):
    async with running_chat(vault) as chat:
        made = str((await conversations(chat).create())["id"])
        inside = sessions_of(chat)
        read, lines = inside._read_at, 0

        async def read_before_an_editor_writes(path: str):
            nonlocal lines
            file = await read(path)
            if lines < 20:
                lines += 1
                with (vault / file.note.path).open("a") as open_file:
                    open_file.write(f"line {lines}\n")
            return file

        monkeypatch.setattr(inside, "_read_at", read_before_an_editor_writes)
        await conversations(chat).add_message(made, "One", "parachute")
        await conversations(chat).add_message(made, "Two", "parachute")

        assert [one.split()[0] for one in await texts(chat, made)] == ["One", "Two"]
        text = (vault / FOLDER / files(vault)[0]).read_text()
        assert text.count("line ") == 20
        assert await chat.doctor() == []
