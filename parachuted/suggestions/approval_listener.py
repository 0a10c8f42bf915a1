"""Acts when a person ticks a box in a suggestion's file, which must otherwise be as the daemon
wrote it; answers other ticks by words in the file. A copy, or a file of a suggestion that is not
known, does nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial

from parachuted.errors import ParachuteError, StorageFailedError
from parachuted.events import PERSON, Bus, Event
from parachuted.suggestions.store import WRITER
from parachuted.suggestions.suggestion import FOLDER, SuggestionFile, SuggestionRecord
from parachuted.suggestions.suggestions import Suggestions
from parachuted.vault import VaultPath, VaultRoot

log = logging.getLogger(__name__)

_DELETED = "file.deleted"
_FILES = frozenset({"file.created", "file.modified", "file.moved", _DELETED})
_MOST_LOOKED_AT = 5_000
_CHANGED = (
    "This file no longer said what was suggested, so nothing was done. Its text has been "
    "restored: read it, then tick a box."
)
_BOTH = "Both boxes were ticked, so nothing was done. Tick one of them."
_NOBODY = "A box was ticked, but not by a person, so nothing was done."
_OVER = "This was resolved already: a box that is ticked now does nothing."


class ApprovalListener:
    """Listens from the moment it is made; acts while `run` does."""

    def __init__(self, suggestions: Suggestions, root: VaultRoot, bus: Bus) -> None:
        self._suggestions, self._root = suggestions, root
        self._acts: deque[partial[Coroutine[None, None, None]]] = deque()
        self._came = asyncio.Event()
        self._idle = asyncio.Event()
        self._end = bus.subscribe(self._hear)

    async def run(self) -> None:
        try:
            await self._suggestions.settle()
        except StorageFailedError as error:  # whoever resolves one tries again
            log.warning("suggestions could not be settled", extra={"reason": error.message})
        await self._act_on_all()
        await self._look_through()
        while True:
            await self._act_on_all()
            self._idle.set()
            await self._came.wait()
            self._came.clear()

    async def quiet(self) -> None:
        while self._acts or not self._idle.is_set():
            await self._idle.wait()
            await asyncio.sleep(0)

    def close(self) -> None:
        self._end()

    async def noticed(self, path: str, by: str = PERSON.by) -> None:
        place = VaultPath.parse(path)
        store = self._suggestions.store
        file = await asyncio.to_thread(store.read, place)
        if file is None:
            return
        record = store.at(path) or await self._found_elsewhere(file, path)
        if record is None:
            return
        known, is_persons, words = record.suggestion, by == PERSON.by, ""
        if not known.is_pending:
            is_old = file.suggestion is not None and file.suggestion.status != known.status
            words = _OVER if file.is_ticked or is_old else ""
        elif is_persons and not file.is_ticked:
            pass  # somebody is writing in it; that is theirs to do, and nothing happens
        elif file.is_ticked and not is_persons:
            words = _NOBODY
        elif not store.is_as_written(file, record):
            words = _CHANGED
        elif file.approve and file.reject:
            words = _BOTH
        elif is_persons:
            words = await self._resolve(known.id, file)
        if words:
            await self._suggestions.say(known.id, words, file)

    async def _resolve(self, name: str, file: SuggestionFile) -> str:
        """Do what is ticked; returns why it could not be done."""
        try:
            await (self._suggestions.approve if file.approve else self._suggestions.reject)(name)
        except ParachuteError as error:
            if self._suggestions.get(name).is_pending:
                return f"It could not be done: {error.message}"
        return ""

    async def _found_elsewhere(self, file: SuggestionFile, path: str) -> SuggestionRecord | None:
        """The suggestion of a file at another path, if it was renamed."""
        store = self._suggestions.store
        known = None if file.suggestion is None else store.get(file.suggestion.id)
        if known is None or await asyncio.to_thread(store.is_in_vault, known.file):
            return None
        await self._suggestions.place(known.suggestion.id, path)
        return store.get(known.suggestion.id)

    async def _look_through(self) -> None:
        """At the start: what was ticked, forgotten or not written yet."""
        for path in await asyncio.to_thread(self._files):
            await self._guarded(partial(self.noticed, path))
        for record in self._suggestions.store.all():
            if record.suggestion.is_pending:
                await self._guarded(partial(self._gone, record.file, WRITER))

    def _files(self) -> list[str]:
        try:
            with self._root.opened_folder(FOLDER) as folder, os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries)[:_MOST_LOOKED_AT]
        except OSError:
            return []
        return [
            f"{FOLDER}/{name}"
            for name in names
            if name.endswith(".md") and not name.startswith(".")
        ]

    async def _act_on_all(self) -> None:
        while self._acts:
            await self._guarded(self._acts.popleft())

    async def _guarded(self, act: partial[Coroutine[None, None, None]]) -> None:
        says = "a file of a suggestion could not be acted on"
        try:
            await act()
        except ParachuteError as error:
            log.warning(says, extra={"path": str(act.args[0]), "reason": error.message})
        except Exception:  # a wall: a file may hold anything, and must not end the daemon
            log.exception(says, extra={"path": str(act.args[0])})

    async def _moved(self, source: str, path: str) -> None:
        if (record := self._suggestions.store.at(source)) is not None:
            await self._suggestions.place(record.suggestion.id, path)

    async def _gone(self, path: str, by: str) -> None:
        """A person who removes the file rejects the suggestion; others' removals are undone."""
        record, store = self._suggestions.store.at(path), self._suggestions.store
        if record is None or not record.suggestion.is_pending:
            return
        if await asyncio.to_thread(store.is_in_vault, record.file):
            return
        if by == PERSON.by:
            await self._suggestions.reject(record.suggestion.id, reason="its file was removed")
        else:
            await self._suggestions.show_again(record.suggestion.id)

    async def _note_gone(self, path: str) -> None:
        """A note is deleted, or is ignored from now on."""
        if await asyncio.to_thread(self._suggestions.store.is_in_vault, path):
            await self._suggestions.hide(path)

    def _hear(self, event: Event) -> None:
        data, kind = event.data, event.event
        if kind not in _FILES or data.get("by") == WRITER:
            return
        source = str(data["from"]) if "from" in data else None
        path, by, is_gone = str(data.get("path", "")), str(data.get("by", "")), kind == _DELETED
        if _is_among(path):
            if source is not None:
                self._take(self._moved, source, path)
            self._take(self._gone if is_gone else self.noticed, path, by)
        elif source is not None and _is_among(source):
            self._take(self._gone, source, by)
        elif is_gone:
            self._take(self._note_gone, path)

    def _take(self, act: Callable[..., Coroutine[None, None, None]], *arguments: object) -> None:
        self._acts.append(partial(act, *arguments))
        self._idle.clear()
        self._came.set()


def _is_among(path: str) -> bool:
    return path.startswith(f"{FOLDER}/")
