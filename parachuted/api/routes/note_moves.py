"""Note moves: a note goes to another path, and links to it follow."""

from __future__ import annotations

from dataclasses import dataclass

from parachuted.api.http.decorators import post
from parachuted.api.http.route import (
    WRITING,
    ApiCall,
    Path,
    RequestModel,
    expected,
    refuse_watching_beyond,
)
from parachuted.api.routes.note_writer import author_of, is_program, writable
from parachuted.api.routes.notes import FOLDER, NAMES, is_note, no_note, note_path
from parachuted.errors import ConflictError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.search import Search
from parachuted.tools.move import LinkScope, MoveResult, move_file
from parachuted.vault import Store, VaultIndex, VaultPath

_ENDING = "/move"
_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class RewrittenNote:
    path: VaultPath
    hash: str


@dataclass(frozen=True, slots=True)
class MovedNote:
    """`left` counts visible links that stay: not writable by the caller, or without a spelling."""

    path: VaultPath
    source: VaultPath
    hash: str
    rewritten: list[RewrittenNote]
    left: int


class MoveNoteRequest(RequestModel):
    to: Path


class NoteMoveRoutes:
    def __init__(self, store: Store, index: VaultIndex, search: Search) -> None:
        self._store, self._index, self._search = store, index, search

    @post(
        FOLDER + "{path:.+}" + _ENDING,
        "vault",
        "write",
        for_path_keys=True,
        names=NAMES,
        headers=WRITING,
    )
    async def move(self, call: ApiCall, body: MoveNoteRequest) -> MovedNote:
        """Move a note; links to it are rewritten.

        With `If-Match`: only that text.
        """
        path, base, target = note_path(call, _ENDING), expected(call, any_will_do=True), body.to
        call.touched += [path, target]
        if not is_note(target):
            raise no_note(call, target)
        files = list(self._index.paths())
        try:
            moved = await run_uninterrupted(self._move, call, path, target, base, files)
        except ConflictError as error:
            raise call.conflict(error, path, target) from None
        place = moved.written.path
        await self._store.notice([path, place, *(written.path for written in moved.rewritten)])
        call.tag(moved.digest)
        others = [
            RewrittenNote(written.path, str(written.after))
            for written in moved.rewritten
            if written.path != place
        ]
        return MovedNote(place, path, moved.digest, others, moved.left)

    def _move(
        self,
        call: ApiCall,
        path: VaultPath,
        target: VaultPath,
        base: str | None,
        files: list[VaultPath],
    ) -> MoveResult:
        """Links are followed for folders alone: a name that is itself a link is not moved."""
        writable(call, path)
        writable(call, target)
        refuse_watching_beyond(call.reading, self._store, target, lambda text: text, was=path)

        def linking(file: str) -> set[str]:
            """Settles the index first, so that notes that were just saved count."""
            self._search.settle(_PATIENCE_S)
            return {row.source for row in self._search.catalogue.links_to(file, call.files.sees)}

        return move_file(
            self._store,
            path,
            target,
            author_of(self._store, call),
            LinkScope(
                files=filter(call.files.sees, files),
                linking=linking,
                may_write=lambda note: call.files.sees(note) and not is_program(note),
                are_all=call.files.grant.alternatives is None,
            ),
            base=base,
        )
