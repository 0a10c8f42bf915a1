"""Odd exports over HTTP: no answer is an error of the daemon's, and what is good is imported."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from parachuted.home_files.bundled import bundled_folder
from tests.api.calls import post
from tests.api.routes.test_modules import install
from tests.stories.daemon_rig import Live, save

HALF = "\ud800"  # of a character
AT = "2021-08-01T22:30:00Z"
MESSAGE = {"author": {"role": "user"}, "content": {"parts": [f"Hi {HALF}"]}}
CONVERSATIONS = [
    {"id": HALF, "title": HALF, "current_node": [HALF], "mapping": {HALF: {"message": MESSAGE}}},
    {"id": "x", "title": {HALF: 1}, "mapping": {HALF: {"parent": {}, "message": {HALF: HALF}}}},
    {"uuid": "good", "name": "Good", "chat_messages": [{"sender": "human", "text": "Hello"}]},
]
ENTRIES = [
    {"uuid": "1", "creationDate": AT, "text": f"# {HALF}\n\nx {HALF}"},
    {"uuid": HALF, "creationDate": HALF, "timeZone": HALF, "text": HALF},
    {"uuid": "2", "creationDate": AT, "timeZone": HALF, "text": "Good."},
]
FILES = {
    b"Journal.json": json.dumps({"entries": ENTRIES}),
    b"numbers.json": '{"entries": [NaN, 1e999, {"uuid": ' + "9" * 5_000 + "}]}",
    b"deep.json": '{"entries": ' + "[" * 100_000 + "]" * 100_000 + "}",
    b"\xff.json": "[]",
    b"2026-02-24 \xff.md": "Text.",
}


@pytest.mark.parametrize("is_dry", [True, False])
async def test_what_no_file_and_no_answer_can_hold_is_no_error_of_the_daemons(
    live: Live, vault: Path, *, is_dry: bool
):
    folder = vault / "Daily/import"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name.decode("utf-8", "surrogateescape")).write_text(text)
    save(folder / "2021-08-03.md", "Good too.")
    async with live() as daemon_rig, aiohttp.ClientSession() as session:
        for name in ("chat", "daily"):
            await install(daemon_rig, bundled_folder("modules") / name, "trusted")
        await daemon_rig.settled()

        async def imported(path: str, body: object) -> dict:
            data, kind = json.dumps(body), {"Content-Type": "application/json"}
            async with session.post(daemon_rig.url + path, data=data, headers=kind) as answer:
                assert answer.status == 200, await answer.text()
                return await answer.json()

        chats = await imported("/api/import", {"data": CONVERSATIONS, "dry_run": is_dry})
        assert chats["total_conversations"] == len(chats["conversations"]) + len(chats["errors"])
        assert [chat["title"] for chat in chats["conversations"]] == ["?", "Good"]
        assert chats["imported_count"] == (0 if is_dry else 2)
        body = {"source": "Daily/import", "dry_run": is_dry}
        journal = await imported("/api/daily/import", body)
        assert journal["added"] >= 3, journal
        for path in ("/api/chat", "/api/daily/entries"):
            async with session.get(daemon_rig.url + path) as answer:
                assert answer.status == 200, path


async def test_what_was_copied_into_the_vault_a_moment_ago_is_imported(live: Live, vault: Path):
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "daily", "trusted")
        await daemon_rig.settled()
        for day in (1, 2):
            save(vault / f"Daily/import/deep/2021-08-0{day}.md", f"Day {day}.")
            body = {"source": "Daily/import", "dry_run": False}
            assert (await post(daemon_rig, "/api/daily/import", body))["added"] == 1, day
