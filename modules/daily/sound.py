"""Sound: from a recording to the words of an entry, by an engine that the person chose.

An engine is a command that gets a recording's path and prints what was said. The recording stays in
each case.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from parachuted.errors import EditRefusedError, NotFoundError, ParachuteError
from parachuted.modules import StateAccess, VaultAccess

from . import layouts
from .days import Days
from .entry import PLACEHOLDER
from .layouts import Dated

_MOST_CHARACTERS: Final = 1_000_000
_MOST_ERROR: Final = 300
_UNDONE: Final = ("pending", "transcribing")
_WAITING = "waiting"
_FOLDER = "Daily/"


class Transcription(BaseModel):
    """How recordings become words: by a command, or by faster-whisper with a local model."""

    model_config = ConfigDict(extra="forbid")

    command: list[str] = Field(
        default=[], description="words of a command that a recording's path is added to"
    )
    model: str = Field(default="", description="the folder of a model of faster-whisper's")
    timeout_s: float = Field(default=3600, gt=0, description="at most, for one recording")

    @model_validator(mode="after")
    def _one_engine(self) -> Transcription:
        if bool(self.command) == bool(self.model):
            raise ValueError("it needs either `command` or `model`")
        return self

    @property
    def words(self) -> list[str]:
        """The command; with a model, the one that asks faster-whisper."""
        if self.command:
            return self.command
        script = Path(__file__).with_name("whisper.py")
        return [sys.executable, str(script), str(Path(self.model).expanduser())]


async def transcribe_file(settings: Transcription, audio: Path) -> str:
    """What is said in it. All that the engine started is stopped at its end. EditRefusedError."""
    words = [*settings.words, str(audio)]
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise EditRefusedError(
            f"{words[0]} cannot be started: {error.strerror}. Set the command of "
            "`transcription.command`."
        ) from error
    try:
        async with asyncio.timeout(settings.timeout_s):
            said, complaints = await process.communicate()
    except TimeoutError as error:
        raise EditRefusedError(
            f"{words[0]} took more than {settings.timeout_s:g} s and was stopped."
        ) from error
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()  # its end is known only when both pipes were read
    if process.returncode:
        lines = complaints.decode(errors="replace").strip().splitlines() or ["no message"]
        raise EditRefusedError(
            f"{words[0]} ended with {process.returncode}: {lines[-1][:_MOST_ERROR]}"
        )
    if len(said) > _MOST_CHARACTERS:
        raise EditRefusedError(f"{words[0]} printed more than a million characters.")
    return said.decode(errors="replace").strip()


class Recordings:
    """Entries whose recordings wait for their words; without settings they go on waiting."""

    def __init__(
        self, days: Days, vault: VaultAccess, state: StateAccess, settings: Transcription | None
    ) -> None:
        self._settings = settings
        self._days, self._vault, self._state = days, vault, state
        self._turn = asyncio.Lock()

    async def add(self, dated_entries: Iterable[Dated], *, is_limited: bool) -> list[str]:
        """The ids of those that can be transcribed now."""
        new = {
            dated.id: dated.entry.audio
            for dated in dated_entries
            if dated.entry.audio
            and dated.entry.status in _UNDONE
            and not (is_limited and not await self._vault.exists(f"{_FOLDER}{dated.entry.audio}"))
        }
        if new:
            await self._state.put(_WAITING, {**await self._waiting(), **new})
        return list(new) if self._settings is not None else []

    async def transcribe_waiting(
        self, entry_ids: Sequence[str] | None = None
    ) -> list[tuple[str, ParachuteError]]:
        """What failed. An entry that has another recording by now is left."""
        failed: list[tuple[str, ParachuteError]] = []
        if self._settings is None:
            return failed
        for entry_id in list(await self._waiting()) if entry_ids is None else entry_ids:
            async with self._turn:
                audio = (await self._waiting()).get(entry_id)
                try:
                    dated = await self._days.find(entry_id)
                    if audio is not None and dated.entry.audio == audio:
                        await self._transcribe(dated)
                except NotFoundError:
                    pass
                except ParachuteError as error:
                    failed.append((entry_id, error))
                await self._forget(entry_id)
        return failed

    async def transcribe(self, entry_id: str) -> Dated:
        """Words that the entry has stay. Raises EditRefusedError."""
        async with self._turn:
            return await self._transcribe(await self._days.find(entry_id))

    async def words_in(self, data: bytes, name: str) -> str:
        """The end of `name` says the kind of recording. Raises EditRefusedError."""
        settings = self._engine()
        with tempfile.TemporaryDirectory() as folder:
            audio = Path(folder) / f"recording{PurePosixPath(name).suffix}"
            await asyncio.to_thread(audio.write_bytes, data)
            return await transcribe_file(settings, audio)

    async def _transcribe(self, dated: Dated) -> Dated:
        audio = dated.entry.audio
        if audio is None:
            raise EditRefusedError("The entry has no recording.")
        self._engine()
        await self._set(dated, status="transcribing")
        try:
            data = await self._vault.read_bytes(f"{_FOLDER}{audio}")
            words = await self.words_in(data, audio)
        except ParachuteError as error:
            await self._set(dated, status="failed")
            await self._forget(dated.id)
            raise EditRefusedError(error.message) from error
        await self._set(dated, lambda body: _with_words(body, words), status="complete")
        await self._forget(dated.id)
        return await self._days.find(dated.id)

    def _engine(self) -> Transcription:
        if self._settings is None:
            raise EditRefusedError(
                "No speech engine is set: see `transcription` in the settings of Daily."
            )
        return self._settings

    async def _waiting(self) -> dict[str, str]:
        stored = await self._state.get(_WAITING)
        return dict(stored) if isinstance(stored, dict) else {}

    async def _forget(self, entry_id: str) -> None:
        waiting = await self._waiting()
        if waiting.pop(entry_id, None) is not None:
            await self._state.put(_WAITING, waiting)

    async def _set(
        self, dated: Dated, body: Callable[[str], str] | None = None, *, status: str
    ) -> None:
        def edit(text: str) -> str:
            if body is None:
                return layouts.edited(dated, text, status=status)
            now = layouts.find(dated, text).entry.body
            return layouts.edited(dated, text, content=body(now), status=status)

        await self._days.rewrite(dated, edit)


def _with_words(body: str, words: str) -> str:
    """In the place that waits for them; else after what the entry says, unless it says them."""
    if PLACEHOLDER in body:
        return body.replace(PLACEHOLDER, words, 1)
    return body if words in body else f"{body}\n\n{words}".lstrip("\n")
