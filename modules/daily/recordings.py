"""Recordings: from an audio file to the words of an entry; the audio stays in each case."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.modules import StateAccess, VaultAccess

from . import layouts
from .days import Days
from .entry import PLACEHOLDER
from .layouts import Dated
from .transcription import CommandEngine, TranscriptionError, merge, transcribe

_UNDONE: Final = ("pending", "transcribing")
_WAITING = "waiting"
_KEPT = "transcript/"
_FOLDER = "Daily/"
_NO_ENGINE = "No speech engine is set: see `transcription` in the settings of Daily."


class Recordings:
    """`engine`: None where the person chose none, so that recordings wait."""

    def __init__(
        self, days: Days, vault: VaultAccess, state: StateAccess, engine: CommandEngine | None
    ) -> None:
        self.engine = engine
        self._days, self._vault, self._state = days, vault, state
        self._turn, self._round = asyncio.Lock(), asyncio.Lock()

    async def add(self, found: Iterable[Dated], *, is_limited: bool) -> list[str]:
        """Keep in mind those without a transcript, for a caller that `is_limited` those that it may
        read; the ids of those that can be transcribed now.
        """
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
        """Transcribe what waits, or only these; what failed. An entry that has another recording by
        now is left.
        """
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
        """Write the words of a recording into its entry.

        A first transcript replaces the placeholder, byte for byte; one that is made again keeps
        what a person changed. TranscriptionError: the engine failed, which the entry then says.
        """
        async with self._turn:
            return await self._transcribe(await self._days.find(entry_id))

    async def words_in(self, data: bytes, name: str) -> str:
        """The end of `name` says the kind of recording. Raises TranscriptionError."""
        if self.engine is None:
            raise TranscriptionError(_NO_ENGINE)
        async with self._turn:
            return await _heard(self.engine, data, PurePosixPath(name).suffix)

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
            words = await _heard(self.engine, data, suffix)
        except (TranscriptionError, ParachuteError) as error:
            await self._set(dated, status="failed")
            await self._forget(dated.id)
            raise TranscriptionError(str(error)) from error
        earlier = await self._earlier(dated)
        await self._set(dated, lambda body: _joined(body, earlier, words), status="complete")
        kept = {
            "text": words,
            "engine": self.engine.name,
            "audio": dated.entry.audio,
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        await self._state.put(_KEPT + dated.entry.key, kept)
        await self._forget(dated.id)
        return await self._days.find(dated.id)

    async def _waiting(self) -> dict[str, str]:
        kept = await self._state.get(_WAITING)
        return dict(kept) if isinstance(kept, dict) else {}

    async def _forget(self, entry_id: str) -> None:
        waiting = await self._waiting()
        waiting.pop(entry_id, None)
        await self._state.put(_WAITING, waiting)

    async def _earlier(self, dated: Dated) -> str | None:
        kept = await self._state.get(_KEPT + dated.entry.key)
        return str(kept["text"]) if isinstance(kept, dict) else None

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


async def _heard(engine: CommandEngine, data: bytes, suffix: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        audio = Path(folder) / f"recording{suffix}"
        await asyncio.to_thread(audio.write_bytes, data)
        return await transcribe(engine, audio)


def _joined(body: str, earlier: str | None, words: str) -> str:
    if PLACEHOLDER in body:
        return body.replace(PLACEHOLDER, words, 1)
    if earlier is not None:
        return merge(earlier, body, words)
    return f"{body}\n\n{words}" if body else words
