"""Transcription: the words of a recording, by an engine that the person chose.

An engine is a command that gets the path of a WAV file and prints what was said. The engine
`whisper` is such a command too, in a process of its own, so that its memory goes with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from . import speech
from .settings import Transcription
from .speech import Span

_AUDIO: Final = "{audio}"
_MOST_CHARACTERS: Final = 1_000_000
_MOST_BYTES: Final = 4 * _MOST_CHARACTERS
_MOST_ERROR: Final = 300
_SILENCE_S: Final = 5.0


class TranscriptionError(Exception):
    """The engine could not do it; the message says why, and what to do."""


class Engine(Protocol):
    """Turns a recording into text."""

    @property
    def name(self) -> str:
        """What the transcript names as its engine."""
        ...

    async def transcribe(self, audio: Path) -> str:
        """What is said in the recording. Raises TranscriptionError."""
        ...


@dataclass(frozen=True, slots=True)
class CommandEngine:
    """A program that prints what it heard.

    `words` are its command; `{audio}` in one of them is the path of the recording, which else comes
    last. `timeout_s` is for one recording.
    """

    name: str
    words: Sequence[str]
    timeout_s: float = 3600

    async def transcribe(self, audio: Path) -> str:
        """What it prints; all that it started is stopped after `timeout_s` or when cancelled."""
        words = [word.replace(_AUDIO, str(audio)) for word in self.words]
        if not any(_AUDIO in word for word in self.words):
            words.append(str(audio))
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise TranscriptionError(
                f"{words[0]} cannot be started: {error.strerror}. Set the command of "
                "`transcription.command`."
            ) from error
        try:
            async with asyncio.timeout(self.timeout_s):
                complaints, said = await asyncio.gather(
                    _read(process.stderr), _read(process.stdout)
                )
        except TimeoutError as error:
            raise TranscriptionError(
                f"{words[0]} took more than {self.timeout_s:.0f} s and was stopped."
            ) from error
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # its end is known only when both pipes were read to their ends
            await asyncio.gather(_read(process.stderr), _read(process.stdout))
            await process.wait()
        if process.returncode:
            lines = complaints.strip().splitlines() or ["no message"]
            raise TranscriptionError(
                f"{words[0]} ended with {process.returncode}: {lines[-1][:_MOST_ERROR]}"
            )
        if len(said) > _MOST_CHARACTERS:
            raise TranscriptionError(f"{words[0]} printed more than a million characters.")
        return said.strip()


async def _read(stream: asyncio.StreamReader | None) -> str:
    """What a program prints, to the end, of which a little more than what is allowed is kept."""
    kept = bytearray()
    while stream is not None and (piece := await stream.read(1 << 16)):
        if len(kept) <= _MOST_BYTES:
            kept += piece
    return kept.decode(errors="replace")


def engine_of(settings: Transcription | None) -> Engine | None:
    """The engine that the settings name; None: none is set."""
    if settings is None:
        return None
    if settings.model:
        return whisper(Path(settings.model).expanduser(), settings.timeout_s)
    name = Path(settings.command[0]).name
    return CommandEngine(name, settings.command, settings.timeout_s)


def whisper(model: Path, timeout_s: float) -> CommandEngine:
    """faster-whisper with the model in that folder, of the extra `[transcribe]`."""
    script = Path(__file__).with_name("whisper.py")
    return CommandEngine("whisper", [sys.executable, str(script), str(model), _AUDIO], timeout_s)


async def transcribe(engine: Engine, audio: Path) -> str:
    """What is said in the recording, in paragraphs; a silence of more than five seconds is marked.

    Where the extra that detects speech is not installed, the engine gets the recording as it is.
    Raises TranscriptionError.
    """
    if not speech.can_detect():
        return await engine.transcribe(audio)
    try:
        samples = await asyncio.to_thread(speech.decode, audio)
    except ValueError as error:
        raise TranscriptionError(str(error)) from error
    spans = await asyncio.to_thread(speech.spoken, samples)
    whole = len(samples) / 2 / speech.RATE
    paragraphs: list[str] = []
    reached = 0.0
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "part.wav"
        for span in spans:
            paragraphs += _silence(reached, span.start)
            await asyncio.to_thread(speech.write_wave, samples, span, part)
            paragraphs.append(await engine.transcribe(part))
            reached = span.end
    paragraphs += _silence(reached, whole)
    return "\n\n".join(one for one in paragraphs if one) or _silence_text(Span(0, whole))


def _silence(start: float, end: float) -> list[str]:
    return [_silence_text(Span(start, end))] if end - start > _SILENCE_S else []


def _silence_text(span: Span) -> str:
    return f"*(No speech from {_clock(span.start)} to {_clock(span.end)})*"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
