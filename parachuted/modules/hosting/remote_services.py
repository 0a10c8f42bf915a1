"""A module's services in its own process: each call asks the daemon, which holds the rights
and the vault.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter

from parachuted.access.notes import Note, NoteBatch, NoteStream, Paths, Upload
from parachuted.errors import ActRefusedError, ModuleFailedError
from parachuted.modules.agent_runs import RunAccess
from parachuted.modules.hosting.codec import note_of
from parachuted.modules.hosting.pipe_access import PipeAccess, PipeCaller
from parachuted.modules.hosting.remote_interface import RemoteInterface
from parachuted.modules.results import to_json
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.modules.services import (
    ActivityAccess,
    ContextAccess,
    CurrentCall,
    FolderAccess,
    StateAccess,
    VaultAccess,
)

_NOTES = (".md", ".markdown")
_AT_ONCE = 100
_MOST_NAMED = 10_000
_PIECE = 1 << 20
_AGAIN_S = 0.01
_CURRENT_CALL: TypeAdapter[CurrentCall] = TypeAdapter(CurrentCall)


class RemoteServices:
    """The `Services` of a module whose daemon is at the other end of a pipe."""

    def __init__(
        self,
        name: str,
        config: Mapping[str, object],
        log: logging.Logger,
        asker: PipeCaller,
        *,
        data_folder: Path | None = None,
        has_model: bool = False,
    ) -> None:
        self.name = name
        self.has_model = has_model
        self._data_folder = data_folder
        self.config = config
        self.log = log
        self.vault = cast("VaultAccess", RemoteVault(asker))
        self.folders = cast("FolderAccess", PipeAccess(FolderAccess, "folders", asker))
        self.state = cast("StateAccess", RemoteState(asker))
        self.activity = cast("ActivityAccess", PipeAccess(ActivityAccess, "activity", asker))
        self.runs = cast("RunAccess", PipeAccess(RunAccess, "runs", asker))
        self.contexts = cast("ContextAccess", PipeAccess(ContextAccess, "contexts", asker))
        self.schedules = cast("ScheduleAccess", PipeAccess(ScheduleAccess, "schedules", asker))
        self._asker = asker

    @property
    def data_folder(self) -> Path:
        if self._data_folder is None:
            raise ModuleFailedError("the daemon named no data folder")
        return self._data_folder

    @property
    def current_call(self) -> CurrentCall:
        return _CURRENT_CALL.validate_python(self._asker.ask_now("current_call", {}))

    def on_behalf_of(
        self, person: str, *, is_strangers: bool = False
    ) -> AbstractContextManager[None]:
        del is_strangers
        raise ActRefusedError(f"only a trusted module may act for a person, such as {person[:80]}")

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        self._asker.ask_now("publish", {"event": event, "data": to_json(data)})

    def get_interface(self, name: str) -> object | None:
        return (
            RemoteInterface(name, partial(self._asker.ask, "interface"))
            if self._asker.ask_now("has_interface", {"interface": name})
            else None
        )

    async def run_agent(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        body = {"agent": agent, "prompt": prompt, "options": to_json(options)}
        return str(await self._asker.ask("run_agent", body))

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str:
        body = {
            "action": action,
            "path": path,
            "payload": to_json(payload),
            "reasoning": reasoning,
            "base": base,
        }
        return str(await self._asker.ask("suggest", body))

    async def resolve_suggestion(self, suggestion_id: str, decision: str) -> str:
        raise ActRefusedError(f"only a trusted module may {decision[:20]} {suggestion_id[:80]}")


class RemoteVault(PipeAccess):
    """`VaultAccess` over the pipe; what is large crosses in parts."""

    def __init__(self, caller: PipeCaller) -> None:
        super().__init__(VaultAccess, "vault", caller)
        self._numbers = itertools.count(1)

    async def readable(self, paths: Sequence[str]) -> Paths:
        found: list[str] = []
        for first in range(0, len(paths), _MOST_NAMED):
            part = list(paths[first : first + _MOST_NAMED])
            found += _list(await self._caller.ask("vault.readable", {"paths": part}))
        return found

    async def note(self, path: str) -> Note:
        return note_of(_mapping(await self._caller.ask("vault.note", {"path": path})))

    def read_notes(self, pattern: str | Sequence[str] = "**") -> NoteStream:
        return NoteStream(self._batches(pattern))

    async def _batches(self, pattern: str | Sequence[str]) -> AsyncIterator[NoteBatch]:
        paths = pattern
        if isinstance(paths, str):
            paths = [path for path in await self.list(paths) if path.endswith(_NOTES)]
        while paths:
            body = {"paths": list(paths[:_AT_ONCE])}
            batch = _mapping(await self._caller.ask("vault.read_notes", body))
            notes = tuple(note_of(_mapping(one)) for one in _list(batch["notes"]))
            yield NoteBatch(notes=notes, left_out=_mapping(batch["left_out"]))
            paths = paths[max(1, int(batch["read"])) :]

    async def upload(self, path: str, chunks: AsyncIterable[bytes]) -> Upload:
        """One call for as long as it lasts; the pieces come with others."""
        number = next(self._numbers)
        made = asyncio.get_running_loop().create_task(
            self._caller.ask("vault.upload", {"path": path, "number": number}),
            name=f"upload {path}",
        )
        try:
            async for piece in _pieces(chunks):
                data = base64.b64encode(piece).decode()
                # until it has started; once it has ended, the call itself says why
                body = {"number": number, "data": data}
                while not (  # noqa: ASYNC110  the daemon says when it has started
                    made.done() or await self._caller.ask("vault.upload_piece", body)
                ):
                    await asyncio.sleep(_AGAIN_S)
                if made.done():
                    break
            method = self._methods["upload"]
            return cast("Upload", method.load_result(await made))
        finally:
            made.cancel()


class RemoteState(PipeAccess):
    """`StateAccess` over the pipe."""

    def __init__(self, caller: PipeCaller) -> None:
        super().__init__(StateAccess, "state", caller)

    async def get(self, key: str, default: object = None) -> object:
        found = _mapping(await self._caller.ask("state.get", {"key": key}))
        return found.get("value", default)


class LogOverPipe(logging.Handler):
    """Sends what is logged to the daemon's log."""

    def __init__(self, say: Callable[[int, str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._say(record.levelno, self.format(record))
        except (OSError, ModuleFailedError):
            self.handleError(record)


async def _pieces(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        for at in range(0, len(chunk), _PIECE):
            yield bytes(chunk[at : at + _PIECE])
    yield b""


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ModuleFailedError("the daemon answered with something other than an object")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ModuleFailedError("the daemon answered with something other than a list")
    return value
