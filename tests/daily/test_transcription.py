"""Transcription: real speech, a real engine, and what a person corrected."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.home_files.bundled import bundled_folder
from tests.module_files import daily_file

FOLDER = bundled_folder("modules") / "daily"


sound = daily_file("sound")

POCKETSPHINX = """
import sys, wave
from pocketsphinx import Decoder
with wave.open(sys.argv[1]) as file:
    assert (file.getframerate(), file.getnchannels()) == (16000, 1)
    samples = file.readframes(file.getnframes())
decoder = Decoder(loglevel="FATAL")
decoder.start_utt(); decoder.process_raw(samples, full_utt=True); decoder.end_utt()
print(decoder.hyp().hypstr if decoder.hyp() else "")
"""
HEARS = [sys.executable, "-c", POCKETSPHINX]


def samples_with_silence(recording: Path, seconds: int) -> bytes:
    spoken = sound.decode(recording)
    return spoken + bytes(2 * sound.RATE * seconds) + spoken


def write(path: Path, samples: bytes) -> Path:
    sound.write_wave(samples, sound.Span(0, len(samples) / 2 / sound.RATE), path)
    return path


@pytest.mark.skipif(
    importlib.util.find_spec("pocketsphinx") is None,
    reason="pocketsphinx is not installed: this Python has no wheel of it",
)
async def test_what_was_said_is_heard_by_an_engine_that_runs_offline(spoken_words: Path):
    engine = sound.CommandEngine("pocketsphinx", HEARS)

    said = await sound.transcribe_file(engine, spoken_words)

    assert len({"one", "two", "three", "four", "five"} & set(said.split())) >= 3


async def test_a_long_silence_is_marked_and_no_engine_hears_it(spoken_words: Path, tmp_path: Path):
    recording = write(tmp_path / "long.wav", samples_with_silence(spoken_words, 40))
    heard = tmp_path / "heard"
    engine = sound.CommandEngine(
        "counting", ["sh", "-c", f'wc -c < "$1" >> {heard}; echo words', "sh"]
    )

    said = (await sound.transcribe_file(engine, recording)).split("\n\n")

    assert said[0] == said[2] == "words"
    assert said[1].startswith("*(No speech from 0:0")
    sizes = [int(line) for line in heard.read_text().split()]
    assert len(sizes) == 2
    assert sum(sizes) < 2 * sound.RATE * 15


async def test_a_recording_of_nothing_says_so_and_asks_no_engine(tmp_path: Path):
    recording = write(tmp_path / "silent.wav", bytes(2 * sound.RATE * 8))
    engine = sound.CommandEngine("none", ["/does/not/exist"])

    assert await sound.transcribe_file(engine, recording) == "*(No speech from 0:00 to 0:08)*"


async def test_what_is_not_a_recording_is_refused(tmp_path: Path):
    (tmp_path / "note.wav").write_text("words")
    engine = sound.CommandEngine("none", ["true"])

    with pytest.raises(sound.TranscriptionError, match=r"note\.wav is not a recording"):
        await sound.transcribe_file(engine, tmp_path / "note.wav")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["/does/not/exist"], "cannot be started"),
        (["sh", "-c", "echo no model here >&2; exit 3"], "ended with 3: no model here"),
        (["sh", "-c", "head -c 5000000 /dev/zero"], "more than a million characters"),
        ([sys.executable, str(FOLDER / "whisper.py"), "/no/model"], "there is no model in"),
    ],
)
async def test_an_engine_that_fails_says_why(words, message, tmp_path: Path):
    with pytest.raises(sound.TranscriptionError, match=message):
        await sound.CommandEngine("engine", words).transcribe(tmp_path / "a.wav")


async def test_an_engine_that_hangs_is_stopped(tmp_path: Path):
    engine = sound.CommandEngine("slow", ["sh", "-c", "sleep 600 & sleep 600"], timeout_s=0.2)

    with pytest.raises(sound.TranscriptionError, match="was stopped"):
        await engine.transcribe(tmp_path / "a.wav")


def test_a_correction_survives_a_second_transcription():
    first = "we met keven at the harbor and talked about the bode"
    corrected = "we met Kevin at the harbor and talked about the boat"
    again = "we met kevan at the harbour and talked about the bode"

    assert (
        sound.merge(first, corrected, again)
        == "we met Kevin at the harbour and talked about the boat"
    )


WORDS = st.lists(st.sampled_from(["a", "b ", "c\n", "d"]), max_size=12).map("".join)


@given(WORDS, WORDS)
def test_without_corrections_the_second_transcript_stands(first: str, other: str):
    assert sound.merge(first, first, other) == other
    assert sound.merge(first, other, first) == other
    assert sound.merge(first, other, other) == other
