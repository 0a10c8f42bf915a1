"""Anything at all may stand where Chat reads: it starts, and the good files beside it are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parachuted.errors import ModuleFailedError, ParachuteError, StorageFailedError
from parachuted.testing import ModuleHarness
from parachuted.vault import printable
from tests.chat.chat_of import acting_as_owner
from tests.chat.scripted_runs import ask, kinds, scripted_chat, words
from tests.module_files import chat_file
from tests.odd_files import KINDS, ODD, changed, mistakes_in, put, put_names, state_of

RENAMED = "Chat/sessions/2026-02-25 Odd.md"  # a person named it, so its title is written into it
PLACES = (
    "Chat/sessions/2026-02-23 Odd.md",
    "Chat/sessions/2026/odd.md",
    "Chat/workspaces/odd.md",
    "Chat/.agents/curator.md",
    "Chat/artifacts/odd.m4a",
    ".agents/odd.md",
    "Projects/odd/AGENTS.md",
    "Notes/odd.md",
)
GOOD = {
    "Chat/sessions/2026-02-24 Good.md": "---\nid: goodgoodgood\ntitle: Good\n---\n\n"
    '<!-- message {"id": "aaaaaaaaaaaa", "role": "user"} -->\n### User\n\nHeliotropes?\n',
    "Chat/workspaces/good.md": "---\nname: Good\n---\n",
    ".agents/good.md": "---\nname: good\n---\nBe kind.\n",
    "Projects/good/AGENTS.md": "# Good\n\nHeliotropes are grown here.\n",
}


async def check_good(chat: ModuleHarness) -> None:
    """The good files are listed and read, and a turn that names the odd ones is answered."""
    listed = (await chat.request("GET", "/", query={"limit": "100"}))["sessions"]
    assert "goodgoodgood" in {one["id"] for one in listed}
    assert (await chat.request("GET", "/goodgoodgood"))["title"] == "Good"
    found = (await chat.request("GET", "/", query={"search": "heliotropes"}))["sessions"]
    assert "goodgoodgood" in {one["id"] for one in found}
    workspaces = (await chat.request("GET", "/api/workspaces/"))["workspaces"]
    assert "good" in {workspace["slug"] for workspace in workspaces}
    turn = await ask(
        chat,
        "Where do heliotropes go?",
        contexts=["Projects/odd", "Projects/good", "Notes/odd.md"],
        attachments=[{"fileName": "odd.m4a", "filePath": "Chat/artifacts/odd.m4a"}],
        agentPath="good",
    )
    assert kinds(turn)[-1] == "done"
    assert await chat.request("GET", "/stats")


async def ask_for_odd(chat: ModuleHarness) -> None:
    """Whatever reads the odd things answers, be it by 4xx or a turn that says what is wrong."""
    listed = (await chat.request("GET", "/", query={"limit": "100"}))["sessions"]
    odd = [one["id"] for one in listed if "odd" in one["id"].lower() or not one["messageCount"]]
    for path in ("/api/workspaces/odd", *(f"/{one}" for one in odd)):
        for more in ("", "/prompt", "/curator/messages", "/runs", "/bridge"):
            try:
                await chat.request("GET", f"{path}{more}")
            except (ModuleFailedError, StorageFailedError):
                raise
            except ParachuteError:
                continue
    for choice in ({"agentPath": "odd"}, {"agentPath": ".agents/odd.md"}, {"workspaceId": "odd"}):
        assert kinds(await ask(chat, "What of odd words?", **choice))[-1] in {"done", "typed_error"}


@pytest.mark.parametrize("odd", ODD)
async def test_chat_starts_with_it_everywhere_and_its_good_neighbours_are_read(
    vault: Path, odd: str, caplog: pytest.LogCaptureFixture
):
    for path, text in GOOD.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    for path in (*PLACES, RENAMED):
        put(odd, vault / path)
    before = {path: state_of(vault / path) for path in PLACES}

    async with scripted_chat(vault, lambda *_: words("In the sun.")) as (chat, _):
        await check_good(chat)
        assert isinstance(await chat.doctor(), list)
        await ask_for_odd(chat)
        for path in PLACES:
            for event in ("file.created", "file.modified", "file.deleted"):
                await chat.event(event, path=path)
        for source in ("Chat/sessions/gone.md", RENAMED):
            await chat.event("file.moved", path=RENAMED, **{"from": source})
        await check_good(chat)
        assert chat.problem is None
    assert mistakes_in(caplog) == []

    for path in PLACES:
        assert state_of(vault / path) == before[path], path
    for path, text in GOOD.items():
        assert (vault / path).read_text() == text


@pytest.mark.parametrize("odd", [kind for kind in KINDS if kind != "a folder"])
async def test_chat_starts_where_something_else_stands_for_each_of_its_folders(
    vault: Path, odd: str, caplog: pytest.LogCaptureFixture
):
    for folder in ("Chat", ".agents", "Projects"):
        put(odd, vault / folder)
    async with scripted_chat(vault, lambda *_: words("In the sun.")) as (chat, _):
        await ask_for_odd(chat)
        assert await chat.request("GET", "/")
        assert isinstance(await chat.doctor(), list)
    assert mistakes_in(caplog) == []


async def test_notes_of_any_name_keep_no_other_one_from_being_read(
    vault: Path, caplog: pytest.LogCaptureFixture
):
    for path, text in GOOD.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    files: dict[bytes, bytes] = {}
    for folder in ("Chat/sessions", "Chat/workspaces", ".agents", "Notes"):
        files |= put_names(vault / folder)
    async with scripted_chat(vault, lambda *_: words("In the sun.")) as (chat, _):
        await check_good(chat)
        for path in files:
            name = printable(os.fsdecode(path.removeprefix(os.fsencode(vault) + b"/")))
            for event in ("file.created", "file.deleted"):
                await chat.event(event, path=name)
        for row in (await chat.request("GET", "/", query={"limit": "100"}))["sessions"]:
            await chat.request("GET", f"/{row['id']}")
        assert isinstance(await chat.doctor(), list)
        await check_good(chat)
    assert mistakes_in(caplog) == []
    assert changed(files) == []


async def test_the_doctor_names_each_unreadable_file_until_it_is_mended(
    vault: Path,
):
    read = {path for path in PLACES if path.startswith(("Chat/sessions", "Chat/workspaces"))}
    for path in PLACES:
        put("latin-1", vault / path)
    async with scripted_chat(vault) as (chat, _):
        assert {one.path for one in await chat.doctor()} == read
        for path in read:
            (vault / path).write_text("# Fine\n\nWords.\n")
            await chat.event("file.modified", path=path)
        assert await chat.doctor() == []


async def test_what_a_prompt_and_a_curator_go_without_is_in_the_log(
    vault: Path, caplog: pytest.LogCaptureFixture
):
    put("latin-1", vault / "Projects/odd/AGENTS.md")
    put("latin-1", vault / "Chat/.agents/curator.md")
    async with scripted_chat(vault, words("In the sun.")) as (chat, _):
        turn = await ask(chat, "Where do heliotropes go?", contexts=["Projects/odd"])
        assert kinds(turn)[-1] == "done"
        exchange = chat_file("curator").Exchange(number=1, question="Beans?", answer="In May.")
        with acting_as_owner():
            await chat.instance.curator.observe(turn[-1]["sessionId"], exchange)
    said = [record.getMessage() for record in caplog.records]
    assert "a prompt lacks a part" in said
    assert "a curator goes without its instructions" in said
