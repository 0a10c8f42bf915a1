"""Note moves: a note goes to another path, links follow, and what that changes is shown first."""

from __future__ import annotations

import asyncio

from aiohttp import web
from typing_extensions import TypedDict

from parachuted.access.filter import unknown
from parachuted.api.http.answers import json_answer
from parachuted.api.http.decorators import post
from parachuted.api.http.file_answers import WRITING, expected
from parachuted.api.http.route import (
    ApiCall,
    Path,
    RequestModel,
    readable,
    refuse_watching_beyond,
)
from parachuted.api.routes.note_reading import (
    is_note,
    no_note,
)
from parachuted.api.routes.note_writer import (
    NoteWriter,
    is_program,
)
from parachuted.api.routes.notes import FOLDER, note_path, writable
from parachuted.errors import ConflictError, NotFoundError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.search import Search
from parachuted.tools import MovePlan, Mover, MoveResult
from parachuted.vault import (
    Store,
    VaultIndex,
    VaultPath,
    printable,
)


class RewrittenNoteResponse(TypedDict):
    """A note whose links were rewritten."""

    path: str
    hash: str


class NoteMoveResponse(TypedDict):
    """A note that has another path.

    `left` counts links to it that stay as they are, in notes that the caller sees: it may not write
    them, or no spelling of the new path fits.
    """

    path: str
    source: str
    hash: str
    rewritten: list[RewrittenNoteResponse]
    left: int


class LinkChangeResponse(TypedDict):
    """A line with links, before and after the move; lines count from 1."""

    path: str
    line: int
    was: str
    becomes: str


class NoteMovePlanResponse(TypedDict):
    """What a move would do to the links that the caller sees; `left` is as in the move itself."""

    path: str
    source: str
    links: list[LinkChangeResponse]
    left: int


_ENDING = "/move"
_PLAN = "/move-plan"
_PATIENCE_S = 5.0


class MoveNoteRequest(RequestModel):
    """Where to."""

    to: Path


class NoteMoveRoutes:
    def __init__(self, store: Store, index: VaultIndex, search: Search, writer: NoteWriter) -> None:
        self._store, self._index, self._search, self._writer = store, index, search, writer

    @post(
        FOLDER + "{path:.+}" + _ENDING,
        "vault",
        "write",
        reach="paths",
        body=MoveNoteRequest,
        answers={200: NoteMoveResponse},
        names={"path": "The note, relative to the vault."},
        headers=WRITING,
    )
    async def move(self, call: ApiCall) -> web.Response:
        """Move a note; links to it are rewritten.

        With `If-Match`: only that text. A move that was made already is answered as one again.
        """
        path, base, target = (
            note_path(call, _ENDING),
            expected(call, any_will_do=True),
            (await call.body(MoveNoteRequest)).to,
        )
        call.touched += [printable(path), printable(target)]
        if not is_note(target):
            raise no_note(target) if call.sight.sees(target) else unknown(target)
        files = list(self._index.paths())
        try:
            moved = await run_uninterrupted(
                self._move, call, path, target, None if base == "*" else base, files
            )
        except ConflictError as error:
            raise call.conflict(error, path, target) from None
        await self._writer.tell(
            [path, moved.written.path, *(written.path for written in moved.rewritten)]
        )
        return json_answer(_told(path, moved), headers={"ETag": f'"{_digest(moved)}"'})

    @post(
        FOLDER + "{path:.+}" + _PLAN,
        "vault",
        "read",
        reach="paths",
        names={"path": "The note, relative to the vault."},
    )
    async def plan(self, call: ApiCall, body: MoveNoteRequest) -> NoteMovePlanResponse:
        """Which links a move would rewrite, line by line. Nothing is written."""
        path, target = note_path(call, _PLAN), body.to
        if not is_note(target):
            raise no_note(target) if call.sight.sees(target) else unknown(target)
        files = list(filter(call.sight.sees, self._index.paths()))
        if target in files:
            raise web.HTTPConflict(text=f"{printable(target)} is there already")
        planned = await asyncio.to_thread(self._plan, call, path, target, files)
        return {
            "path": printable(target),
            "source": printable(path),
            "links": [
                {
                    "path": printable(one.path),
                    "line": one.line,
                    "was": one.was,
                    "becomes": one.becomes,
                }
                for one in planned.changes
            ],
            "left": planned.left,
        }

    def _plan(
        self, call: ApiCall, path: VaultPath, target: VaultPath, files: list[VaultPath]
    ) -> MovePlan:
        call.sight.find(path)
        return self._mover(call).plan(
            path,
            target,
            files=files,
            may_write=lambda note: call.sight.sees(note) and not is_program(note),
            are_all=call.sight.grant.alternatives is None,
        )

    def _mover(self, call: ApiCall) -> Mover:
        return Mover(self._store, lambda linked: self._sources(call, linked))

    def _sources(self, call: ApiCall, path: str) -> set[str]:
        """The notes that link to it for the caller, once those that were just saved are known to
        search.
        """
        self._search.settle(_PATIENCE_S)
        return {row.source for row in self._search.catalogue.links_to(path, call.sight.sees)}

    def _move(
        self,
        call: ApiCall,
        path: VaultPath,
        target: VaultPath,
        base: str | None,
        files: list[VaultPath],
    ) -> MoveResult:
        """Links are followed for the folders alone: a name that is itself a link is not what is to
        be moved.
        """
        writable(call, path)
        writable(call, target)
        refuse_watching_beyond(
            readable(call.identity), self._store, target, lambda text: text, was=path
        )
        mover = self._mover(call)
        try:
            return mover.move(
                path,
                target,
                self._writer.author(call.caller),
                base=base,
                files=filter(call.sight.sees, files),
                may_write=lambda note: call.sight.sees(note) and not is_program(note),
                are_all=call.sight.grant.alternatives is None,
            )
        except NotFoundError:
            self._search.settle(_PATIENCE_S)
            naming = self._search.catalogue.notes_naming
            moved = Mover(self._store, lambda old: naming(old, call.sight.sees)).moved_before(
                path, target, base=base, files=filter(call.sight.sees, files)
            )
            if moved is None:
                raise
            return moved


def _digest(moved: MoveResult) -> str:
    """The moved note's: its own links may have been rewritten."""
    own = [written.after for written in moved.rewritten if written.path == moved.written.path]
    return str(own[-1] if own else moved.written.after)


def _told(path: VaultPath, moved: MoveResult) -> NoteMoveResponse:
    others = [written for written in moved.rewritten if written.path != moved.written.path]
    return {
        "path": printable(moved.written.path),
        "source": printable(path),
        "hash": _digest(moved),
        "rewritten": [
            {"path": printable(written.path), "hash": str(written.after)} for written in others
        ],
        "left": moved.left,
    }
