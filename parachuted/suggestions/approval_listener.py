"""Acts when a person ticks a box in a suggestion's file; other edits have no effect.

Only a person's tick counts, in the file that the daemon wrote, with everything but its boxes
unchanged. Anything else is answered by a note in the file.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from dataclasses import dataclass

from parachuted.errors import ParachuteError
from parachuted.events import PERSON, Bus, Event
from parachuted.suggestions.record import SuggestionRecord
from parachuted.suggestions.store import WRITER
from parachuted.suggestions.suggestion_file import FOLDER, SuggestionFile
from parachuted.suggestions.suggestions import Suggestions
from parachuted.vault import VaultPath, VaultRoot

log = logging.getLogger(__name__)

_MOST_WAITING = 5_000
_MOST_LOOKED_AT = 5_000
_CHANGED = (
    "This file said something else than what was suggested, so nothing was done. It is as "
    "it was again: read it, then tick."
)
_BOTH = "Both boxes were ticked, so nothing was done. Tick one of them."
_NOBODY = "A box was ticked, but not by a person, so nothing was done."
_OVER = "This was resolved already: a box that is ticked now does nothing."
_COPY = (
    "This is a copy of a suggestion, so a box that is ticked here does nothing. The "
    "suggestion itself is {}."
)
_STRANGE = (
    "This is no suggestion that is known here, or it was changed since it was written, so "
    "nothing was done."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    path: str
    by: str
    is_gone: bool = False
    runs: tuple[str, ...] = ()
    source: str | None = None


class ApprovalListener:
    """Listens from the moment it is made; acts while `run` does."""

    def __init__(self, suggestions: Suggestions, root: VaultRoot, bus: Bus) -> None:
        self._suggestions, self._root = suggestions, root
        self._heard: deque[_Heard] = deque(maxlen=_MOST_WAITING)
        self._came = asyncio.Event()
        self._idle = asyncio.Event()
        self._end = bus.listen(self._hear)

    async def run(self) -> None:
        """Look at all files once, then at those that change, until cancelled."""
        await asyncio.to_thread(self._suggestions.settle)
        await self._act_on_all()
        await self._look_through()
        while True:
            await self._act_on_all()
            self._idle.set()
            await self._came.wait()
            self._came.clear()

    async def quiet(self) -> None:
        """Until all that was heard is done."""
        while self._heard or not self._idle.is_set():
            await self._idle.wait()
            await asyncio.sleep(0)

    def close(self) -> None:
        """Hear nothing more."""
        self._end()

    async def noticed(self, path: str, *, by: str = PERSON.by) -> None:
        """A file among the suggestions is another than before."""
        place = VaultPath.parse(path)
        shelf = self._suggestions.shelf
        paper = await asyncio.to_thread(shelf.read, place)
        if paper is None:
            return
        record = shelf.at(path)
        if record is None and paper.suggestion is not None:
            record = await self._found_elsewhere(paper, path)
        if record is None:
            return
        if record.suggestion.is_pending:
            await self._waiting(record, paper, by)
        elif paper.is_ticked or (
            paper.suggestion is not None and paper.suggestion.status != record.suggestion.status
        ):
            await self._suggestions.say(record.suggestion.id, _OVER)

    async def _waiting(self, record: SuggestionRecord, paper: SuggestionFile, by: str) -> None:
        name, shelf = record.suggestion.id, self._suggestions.shelf
        is_same = shelf.is_as_written(paper, record)
        if by != PERSON.by:
            if paper.is_ticked or not is_same:
                await self._suggestions.say(name, _NOBODY if paper.is_ticked else _CHANGED)
        elif not paper.is_ticked:
            return  # somebody is writing in it; that is theirs to do, and nothing happens
        elif not is_same:
            await self._suggestions.say(name, _CHANGED)
        elif paper.approve and paper.reject:
            await self._suggestions.say(name, _BOTH)
        else:
            await self._resolve(name, is_approved=paper.approve)

    async def _resolve(self, name: str, *, is_approved: bool) -> None:
        try:
            if is_approved:
                await self._suggestions.approve(name)
            else:
                await self._suggestions.reject(name)
        except ParachuteError as error:
            if self._suggestions.get(name).is_pending:
                await self._suggestions.say(name, f"It could not be done: {error.message}")

    async def _found_elsewhere(self, paper: SuggestionFile, path: str) -> SuggestionRecord | None:
        """The suggestion of a file that is not where we wrote it: renamed, known again by its seal,
        or none of ours.
        """
        shelf, suggestion = self._suggestions.shelf, paper.suggestion
        if suggestion is None:
            return None
        known = shelf.get(suggestion.id)
        if known is None:
            if not shelf.is_over(suggestion.id) and await asyncio.to_thread(shelf.is_ours, paper):
                return await self._suggestions.adopt(paper, path)
            words = _STRANGE
        elif await asyncio.to_thread(shelf.stands, known.paper):
            words = _COPY.format(known.paper)
        else:
            await self._suggestions.place(suggestion.id, path)
            return shelf.get(suggestion.id)
        if paper.is_ticked:
            await asyncio.to_thread(shelf.say_in, VaultPath(path), words)
        return None

    async def _look_through(self) -> None:
        """All files, at the start: what was ticked meanwhile, what the state forgot, what was kept
        and not written yet.
        """
        for path in await asyncio.to_thread(self._files):
            await self._guarded(_Heard(path=path, by=PERSON.by))
        for record in self._suggestions.shelf.all():
            if record.suggestion.is_pending and not await asyncio.to_thread(
                self._suggestions.shelf.stands, record.paper
            ):
                await self._guarded(_Heard(path=record.paper, by=WRITER, is_gone=True))

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
        while self._heard:
            await self._guarded(self._heard.popleft())

    async def _guarded(self, heard: _Heard) -> None:
        try:
            await self._act(heard)
        except ParachuteError as error:
            log.warning(
                "a file of a suggestion could not be acted on",
                extra={"path": heard.path, "reason": error.message},
            )
        except Exception:  # a wall: a file may hold anything, and must not end the daemon
            log.exception(
                "a file of a suggestion could not be acted on", extra={"path": heard.path}
            )

    async def _act(self, heard: _Heard) -> None:
        if heard.runs:
            await self._suggestions.taken_back(heard.runs)
            return
        if heard.source is not None:
            await self._moved(heard.source, heard)
        if heard.is_gone:
            await self._gone(heard)
        else:
            await self.noticed(heard.path, by=heard.by)

    async def _moved(self, source: str, heard: _Heard) -> None:
        record = self._suggestions.shelf.at(source)
        if record is not None and not heard.is_gone:
            await self._suggestions.place(record.suggestion.id, heard.path)

    async def _gone(self, heard: _Heard) -> None:
        """Who removes the file of a suggestion that waits does not want it; what did not come from
        a person brings it back.
        """
        record = self._suggestions.shelf.at(heard.source or heard.path)
        if record is None or not record.suggestion.is_pending:
            return
        if await asyncio.to_thread(self._suggestions.shelf.stands, record.paper):
            return
        if heard.by == PERSON.by:
            await self._suggestions.reject(record.suggestion.id, reason="its file was removed")
        else:
            await self._suggestions.show_again(record.suggestion.id)

    def _hear(self, event: Event) -> None:
        data = event.data
        if event.event == "run.undone":
            runs = data.get("runs")
            self._take(
                _Heard(path="", by="", runs=tuple(map(str, runs)) if isinstance(runs, list) else ())
            )
            return
        if not event.event.startswith("file.") or data.get("by") == WRITER:
            return
        path, by = str(data.get("path", "")), str(data.get("by", ""))
        source = str(data["from"]) if "from" in data else None
        if _is_among(path):
            self._take(
                _Heard(path=path, by=by, is_gone=event.event == "file.deleted", source=source)
            )
        elif source is not None and _is_among(source):
            self._take(_Heard(path=source, by=by, is_gone=True, source=source))

    def _take(self, heard: _Heard) -> None:
        self._heard.append(heard)
        self._idle.clear()
        self._came.set()


def _is_among(path: str) -> bool:
    return path.startswith(f"{FOLDER}/")
