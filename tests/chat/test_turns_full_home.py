"""A turn while the disk of the home is full: the vault has room, so no message need be lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from parachuted.testing import RecordedRequest, ScriptedMessages, say
from tests.api.calls import get
from tests.chat.app_decoder import decoded
from tests.module_files import install_official
from tests.small_disk import fill, make_room, mounted_disk
from tests.stories.daemon_rig import DaemonRig


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted_disk(tmp_path / "disk", 40) as folder:
        yield folder


@pytest.fixture
def home(disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine-local home on it."""
    folder = disk / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("PARACHUTE_HOME", str(folder))
    return folder


async def last_event(rig: DaemonRig, body: dict[str, object]) -> dict[str, Any]:
    """What ends a turn: the app reads no further. A hanging stream fails by the time limit."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{rig.url}/api/chat", json=body) as answer,
    ):
        async for line in answer.content:
            if line.startswith(b"data: "):
                event = decoded(json.loads(line.removeprefix(b"data: ")))
                if event["type"] in {"done", "typed_error", "error", "aborted"}:
                    return dict(event)
    raise AssertionError("the stream ended without a last event")


def assert_says_what_to_do(event: dict[str, Any]) -> None:
    assert (event["type"], event["code"]) == ("typed_error", "session_unavailable")
    assert event["title"] == "The disk could not be written"
    assert "is full: make room there, then try again" in event["message"]
    assert event["canRetry"]


async def test_a_turn_on_a_full_home_says_so_and_goes_well_once_there_is_room(talking, disk):
    async with (
        ScriptedMessages([lambda _request: [say("Here.")]] * 100) as api,
        talking(api) as rig,
    ):
        await install_official(rig, "chat")
        session = (await last_event(rig, {"message": "Are you there?"}))["sessionId"]
        fill(disk)
        for body in ({"message": "And now?", "sessionId": session}, {"message": "Another."}):
            assert_says_what_to_do(await last_event(rig, body))
            make_room(disk)
            assert (await last_event(rig, body))["response"] == "Here."
            fill(disk)
        make_room(disk)
        shown = await get(rig, f"/api/chat/{session}")
        assert [one["role"] for one in shown["messages"]] == ["user", "assistant"] * 2


async def test_a_home_that_fills_up_during_a_turn_ends_it(talking, disk):
    """On a daemon of its own: a file that has grown before has room for one more answer."""

    def model(request: RecordedRequest):
        if "Fill it" in json.dumps(request.body) and not filled:
            filled.append(True)
            fill(disk)
        return [say("Here.")]

    filled: list[bool] = []
    async with ScriptedMessages([model] * 100) as api, talking(api) as rig:
        await install_official(rig, "chat")
        end = await last_event(rig, {"message": "Fill it"})
        assert_says_what_to_do(end)
        make_room(disk)
        body = {"message": "Are you there?", "sessionId": end["sessionId"]}
        assert (await last_event(rig, body))["response"] == "Here."
