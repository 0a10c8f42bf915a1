"""A daemon that is killed at any moment of its turns, with Claude Code's CLI and a scripted model:
each message that it acknowledged stands in the file once, and the conversation goes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from parachuted.home_files.bundled import bundled_folder
from parachuted.processes.presence import running_daemon
from parachuted.testing import Block, Delay, RecordedRequest, ScriptedMessages, say
from tests.cli.forked import COMMAND, forking

pytestmark = pytest.mark.torture
_PATIENCE_S = 120
_PIECES = 5


class Model:
    """Answers in pieces, each turn with other words; `asked` is what the turns asked, as JSON."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: RecordedRequest) -> Sequence[Block] | Delay:
        asked = json.dumps(request.body)
        if "AskUserQuestion" not in asked:
            return [say("Noted.")]
        self.asked.append(asked)
        return [say(f"This is answer {len(self.asked)} to you.", pieces=_PIECES)]


class KillableDaemon:
    def __init__(self, vault: Path, home: Path, api: ScriptedMessages) -> None:
        self.vault, self.home = vault, home
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PARACHUTE_HOME": str(home),
            "PARACHUTE_AGENT_BACKEND": "claude",
            "PARACHUTE_AGENT_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "sk-ant-api03-test",
        }
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Leave it, and the daemon is killed."""
        command = ("start", "--foreground", "--quiet", "--vault", str(self.vault), "--port", "0")
        process = forking().fork(COMMAND, command, env=self.env)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while (record := running_daemon(str(self.home))) is None or (
                    record["pid"] != process.pid
                ):
                    assert process.returncode is None
                    await asyncio.sleep(0.02)
            self.url = f"http://127.0.0.1:{record['port']}"
            yield
        finally:
            process.kill()
            await process.wait()

    async def call(self, method: str, path: str, body: object = None) -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.request(method, self.url + path, json=body) as answer,
        ):
            assert answer.ok, await answer.text()
            return await answer.json()

    async def turn(self, body: object, most: int | None = None) -> list[dict[str, Any]]:
        """The events of a turn; at most so many, however many follow."""
        found: list[dict[str, Any]] = []
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_PATIENCE_S)) as client,
            client.post(f"{self.url}/api/chat", json=body) as answer,
        ):
            assert answer.status == 200, await answer.text()
            async for raw in answer.content:
                if raw.startswith(b"data: "):
                    found.append(json.loads(raw[6:]))
                    if len(found) == most:
                        break
        return found


async def test_after_a_kill_every_acknowledged_message_is_in_the_file_once(vault, home, torture):
    chance, model = random.Random(7), Model()  # noqa: S311  which moment
    acknowledged: list[str] = []
    async with ScriptedMessages([model] * 100_000) as api:
        daemon = KillableDaemon(vault, home, api)
        async with daemon.running():
            source = str(bundled_folder("modules") / "chat")
            shown = await daemon.call("POST", "/api/modules/install", {"source": source})
            approval = {"hash": shown["hash"], "trust": "trusted"}
            await daemon.call("POST", "/api/modules/chat/approve", approval)
            first = await daemon.turn({"message": "This is message 0 of mine."})
            session = first[-1]["sessionId"]
            note_acknowledged(first, acknowledged)
        for number in range(1, 300 if torture else 2):
            async with daemon.running():
                body = {"message": f"This is message {number} of mine.", "sessionId": session}
                note_acknowledged(await daemon.turn(body, chance.randint(1, 12)), acknowledged)
        async with daemon.running():
            shown = await daemon.call("GET", f"/api/chat/{session}")
            texts = [one["content"] for one in shown["messages"]]
            last = await daemon.turn({"message": "And now?", "sessionId": session})
            for one in acknowledged:
                assert sum(one in text for text in texts) == 1, one
                assert one.strip() in model.asked[-1], one
    assert last[-1]["type"] == "done", last[-1]
    [file] = (vault / "Chat/sessions").glob("*.md")
    for one in acknowledged:
        assert file.read_text("utf-8").count(one) == 1, one


def note_acknowledged(seen: list[dict[str, Any]], acknowledged: list[str]) -> None:
    """A question is once it is repeated, and an answer once the turn is done."""
    acknowledged += [one["content"] for one in seen if one["type"] == "user_message"]
    acknowledged += [one["response"] for one in seen if one["type"] == "done"]
