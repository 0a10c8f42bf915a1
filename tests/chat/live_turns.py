"""Turns in a daemon: over HTTP, with Claude Code's CLI and a scripted model."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from parachuted.agents.choice import BackendChoice, choose_agent
from parachuted.config import Settings
from parachuted.home_files.vault_state import state_folder
from parachuted.processes.heavy import load_heavy
from parachuted.testing import Block, Delay, RecordedRequest, ScriptedMessages, say
from tests.chat.app_decoder import decoded
from tests.stories.daemon_rig import DaemonRig, running_daemon

Talking = Callable[..., AbstractAsyncContextManager[DaemonRig]]


@pytest.fixture
def talking(vault: Path, home: Path) -> Talking:
    """Start a daemon whose agents ask that model."""

    @asynccontextmanager
    async def start(
        api: ScriptedMessages, engine: Mapping[str, str] | None = None
    ) -> AsyncIterator[DaemonRig]:
        await load_heavy("claude")
        env = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "sk-ant-api03-test"}
        env |= engine or {}

        def choose(settings: Settings) -> BackendChoice:
            return choose_agent(settings, state_folder(home, vault), env, home)

        flags = {"agent__base_url": api.url, "agent__backend": "claude"}
        async with running_daemon(vault, home, choose=choose, **flags) as daemon_rig:
            yield daemon_rig

    return start


async def events(
    daemon_rig: DaemonRig, method: str, path: str, body: object = None
) -> list[tuple[str | None, dict[str, Any]]]:
    """The ids and events of a stream, read as the app does: by lines that begin with `data: `."""
    found: list[tuple[str | None, dict[str, Any]]] = []
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, daemon_rig.url + path, json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()
        assert answer.content_type == "text/event-stream"
        event_id = None
        async for raw in answer.content:
            line = raw.decode()
            if line.startswith("id: "):
                event_id = line.removeprefix("id: ").strip()
            if line.startswith("data: "):
                found.append((event_id, dict(decoded(json.loads(line.removeprefix("data: "))))))
            if line == "\n":
                event_id = None
    return found


async def turn(
    daemon_rig: DaemonRig, message: str, session: str | None = None, **more: object
) -> list[dict[str, Any]]:
    """The events of a turn that goes well."""
    body = {"message": message, "sessionId": session, **more}
    found = [one for _, one in await events(daemon_rig, "POST", "/api/chat", body)]
    assert found[-1]["type"] == "done", found[-1]
    return found


def results_in(turn: list[dict[str, Any]]) -> list[str]:
    """What its tools answered."""
    return [one["content"] for one in turn if one["type"] == "tool_result"]


class Model:
    """Answers each turn of a conversation with the next text or blocks, the last one also when it
    is asked again (as after a request that was cut off), and the curator with one word.

    `asked` is what the turns asked it, as JSON. An empty text comes after a minute.
    """

    def __init__(self, *answers: str | Sequence[Block]) -> None:
        self.answers, self.asked = list(answers), list[str]()

    def __call__(self, request: RecordedRequest) -> Sequence[Block] | Delay:
        asked = json.dumps(request.body)
        if "AskUserQuestion" not in asked:
            return [say("Noted.")]
        self.asked.append(asked)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if not isinstance(answer, str):
            return answer
        return [say(answer, pieces=4)] if answer else Delay(seconds=60, then=[say("late")])
