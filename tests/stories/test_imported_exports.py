"""Odd exports over HTTP: no answer is an error of the daemon's, and what is good is imported."""

from __future__ import annotations

import json
from pathlib import Path

from tests.api.calls import get, post
from tests.stories.daemon_rig import Live, save
from tests.stories.official_modules import install_official

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


async def test_what_no_file_and_no_answer_can_hold_is_no_error_of_the_daemons(
    live: Live, vault: Path
):
    folder = vault / "Daily/import"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name.decode("utf-8", "surrogateescape")).write_text(text)
    save(folder / "2021-08-03.md", "Good too.")
    async with live() as daemon_rig:
        await install_official(daemon_rig, "chat", "daily")
        await daemon_rig.settled()
        for is_dry in (True, False):
            body = {"data": CONVERSATIONS, "dry_run": is_dry}
            chats = await post(daemon_rig, "/api/import", body)
            count = len(chats["conversations"]) + len(chats["errors"])
            assert chats["total_conversations"] == count
            assert [chat["title"] for chat in chats["conversations"]] == ["?", "Good"]
            assert chats["imported_count"] == (0 if is_dry else 2)
            body = {"source": "Daily/import", "dry_run": is_dry}
            journal = await post(daemon_rig, "/api/daily/import", body)
            assert journal["added"] >= 3, journal
            for path in ("/api/chat", "/api/daily/entries"):
                await get(daemon_rig, path)

        # what was copied into the vault a moment ago is imported too
        for day in (1, 2):
            save(vault / f"Daily/more/deep/2021-08-0{day}.md", f"Day {day}.")
            body = {"source": "Daily/more", "dry_run": False}
            assert (await post(daemon_rig, "/api/daily/import", body))["added"] == 1, day
