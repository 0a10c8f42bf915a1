"""Transcription: what an engine says of a recording, and what it says where it cannot."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from parachuted.errors import EditRefusedError
from tests.module_files import daily_file

sound = daily_file("sound")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"command": ["/does/not/exist"]}, "cannot be started"),
        (
            {"command": ["sh", "-c", "echo no model here >&2; exit 3"]},
            "ended with 3: no model here",
        ),
        ({"command": ["sh", "-c", "head -c 5000000 /dev/zero"]}, "more than a million characters"),
        ({"model": "/no/model"}, "there is no model in"),
        ({"command": ["sh", "-c", "sleep 600 & sleep 600"], "timeout_s": 0.2}, "was stopped"),
    ],
)
async def test_an_engine_that_fails_says_why(settings, message, tmp_path: Path):
    with pytest.raises(EditRefusedError, match=message):
        await sound.transcribe_file(sound.Transcription(**settings), tmp_path / "a.wav")


async def test_an_engine_gets_the_path_and_its_words_are_the_answer(tmp_path: Path):
    recording = tmp_path / "a.wav"
    recording.write_text("met Kim\n")
    code = "import sys; print(open(sys.argv[1]).read())"

    settings = sound.Transcription(command=[sys.executable, "-c", code])

    assert await sound.transcribe_file(settings, recording) == "met Kim"


async def test_a_recording_whose_transcription_is_cut_short_goes_on_waiting():
    days, vault, state = AsyncMock(), AsyncMock(), AsyncMock()
    days.find.return_value = SimpleNamespace(id="e1", entry=SimpleNamespace(audio="a.wav"))
    vault.read_bytes.return_value = b""
    state.get.return_value = {"e1": "a.wav"}
    slow = sound.Transcription(command=["sh", "-c", "sleep 60", "sh"])

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await sound.Recordings(days, vault, state, slow).transcribe_waiting()

    assert days.rewrite.await_count == 1, "it says that it is transcribed"
    assert state.put.await_count == 0
