"""Note changes: edit, replace, move and delete a note, each call a person's recorded change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from aiohttp import web
from pydantic import ConfigDict, Field, model_validator

from parachuted.access.paths import is_approval, is_code
from parachuted.api.http.decorators import delete, patch, post, put
from parachuted.api.http.route import (
    CREATING,
    WRITING,
    ApiCall,
    MediaBody,
    Path,
    RequestModel,
    expected,
    only_new,
    refuse_watching_beyond,
)
from parachuted.api.routes.notes import FOLDER, NAMES, is_note, no_note, note_path
from parachuted.errors import ConflictError, EditRefusedError, NotFoundError, StorageFailedError
from parachuted.events import PERSON
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.search import Search
from parachuted.sync import PutResult, put_whole
from parachuted.tools.move import LinkScope, MoveResult, move_file
from parachuted.vault import (
    AppendToSection,
    Author,
    DeleteKey,
    Edit,
    ReplaceAll,
    ReplaceSection,
    SetFrontmatterKey,
    Store,
    VaultIndex,
    VaultPath,
    WriteResult,
    apply_edit,
    new_id,
    printable,
)

log = logging.getLogger(__name__)


def is_program(path: str) -> bool:
    """Whether code or approvals are kept there, which nothing writes as notes are written."""
    return is_code(path) or is_approval(path)


def refuse_programs(path: VaultPath) -> None:
    """Raises EditRefusedError when a program, or what decides on one, would be changed."""
    if is_code(path):
        raise EditRefusedError(
            f"{printable(path)} belongs to a module, which is not written from here"
        )
    if is_approval(path):
        raise EditRefusedError(
            f"{printable(path)} is a suggestion's, which is not written from here; POST "
            "/api/suggestions decides on it"
        )


def writable(call: ApiCall, path: VaultPath) -> VaultPath:
    """Where the file is, links followed. Blocks. Raises NotFoundError and, for programs, 403."""
    real = call.files.find(path)
    admin = call.identity.grant("vault", "admin")
    if admin is not None and admin.alternatives is None:
        return real
    for place in (path, real):
        if is_program(place):
            raise web.HTTPForbidden(
                text=f"{printable(place)} is a program's or a suggestion's; only an admin of the "
                "whole vault may write it"
            )
    return real


def keep_bases(store: Store, texts: Iterable[tuple[str, bytes]]) -> None:
    """Keep texts that were read as bases that a write may name; without one it may conflict."""
    for path, data in texts:
        try:
            store.bases.keep(path, data)
        except StorageFailedError as error:
            more = {"error": error.message}
            log.warning("a text that was read could not be kept as a base", extra=more)


def author_of(store: Store, call: ApiCall) -> Author:
    causes = (new_id("c", store.clock()),)
    key = call.requester.limited_key
    return Author(by=PERSON.by, causes=causes, key=key, requester=call.requester)


def put_file(
    store: Store, call: ApiCall, author: Author, path: VaultPath, data: bytes, base: str | None
) -> PutResult:
    """Write a whole file, found before; `base` as `put_whole` has it. Blocks on the disk."""
    refuse_watching_beyond(call.reading, store, path, lambda _before: data)
    return put_whole(store, path, data, author, base=base, sees=call.reading.sees)


_LARGEST = 64 << 20
_AT_ONCE = 4
_SECTION = (
    'Its title, looked for at level 2 first, then at any, or its heading path: "Tea > Facts", or '
    'the titles, ["Tea", "Facts"]. '
    "A name that several sections have is refused (422)."
)
_OCCURRENCE = (
    "Which one, from 1 in the order of the note, where several sections have the same "
    "name and path."
)


@dataclass(frozen=True, slots=True)
class WrittenNote:
    """`before` and `hash` are the digests around it; `merged`: others' changes are in it too."""

    path: VaultPath
    hash: str
    before: str | None
    changed: bool
    merged: bool


@dataclass(frozen=True, slots=True)
class DeletedNote:
    path: VaultPath
    hash: str
    restore: str


class PatchNoteRequest(RequestModel):
    """One section (`content`, `mode`, `create`), or one frontmatter key (`value`, or `delete`)."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"section": "Facts", "content": "Beans.", "create": True}]}
    )

    section: Annotated[
        str | list[str] | None,
        Field(description=_SECTION),
    ] = None
    occurrence: Annotated[
        Annotated[int, Field(ge=1, strict=True)] | None, Field(description=_OCCURRENCE)
    ] = None
    content: str | None = None
    mode: Literal["replace", "append"] = "replace"
    create: Annotated[bool, Field(strict=True)] = False
    key: str | None = None
    value: bool | int | float | str | list[str] | None = None
    delete: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _names_one_place(self) -> Self:
        has_value, has_content = self.value is not None, self.content is not None
        if (self.section is None) == (self.key is None):
            raise ValueError("name a section or a key, and not both")
        if self.section == []:
            raise ValueError("section: should have at least one title")
        if self.occurrence is not None and (self.section is None or self.create):
            raise ValueError(
                "an occurrence is one of a section that is there: it takes a section, and no create"
            )
        if self.section is not None and (not has_content or has_value or self.delete):
            raise ValueError("a section takes content, and neither value nor delete")
        if self.key is not None and (has_content or has_value == self.delete):
            raise ValueError("a key takes either a value or delete: true, and no content")
        return self

    @property
    def edit(self) -> Edit:
        if self.section is not None:
            make = ReplaceSection if self.mode == "replace" else AppendToSection
            return make(
                section=self.section if isinstance(self.section, str) else tuple(self.section),
                content=self.content or "",
                create=self.create,
                occurrence=self.occurrence,
                is_only=True,
            )
        key = self.key or ""
        if self.value is None:
            return DeleteKey(key=key)
        return SetFrontmatterKey(key=key, value=self.value)


class WriteNoteRequest(RequestModel):
    """The text may also be sent as it is: with any type but JSON, such as `text/markdown`."""

    content: str


class NoteChangeRoutes:
    def __init__(self, store: Store) -> None:
        self._store, self._turns = store, asyncio.Semaphore(_AT_ONCE)

    @patch(FOLDER + "{path:.+}", "vault", "write", for_path_keys=True, names=NAMES, headers=WRITING)
    async def edit(self, call: ApiCall, body: PatchNoteRequest) -> WrittenNote:
        """Change one section or one key of a note.

        With `If-Match`: based on that text; without: applied to the current one.
        """
        path, base = note_path(call), expected(call, any_will_do=True)
        return await self._written(call, path, self._edited(call, path, body.edit, base))

    @put(
        FOLDER + "{path:.+}",
        "vault",
        "write",
        for_path_keys=True,
        body=WriteNoteRequest,
        names=NAMES,
        headers=CREATING,
        uploads=MediaBody(type="text/markdown", says="The note, byte for byte."),
        answers={200: WrittenNote, 201: WrittenNote},
        largest_body=_LARGEST,
    )
    async def write(self, call: ApiCall) -> WrittenNote:
        """Create a note or replace its text.

        With `If-Match`: replaces that text; with `If-None-Match: *`: only creates.
        """
        path, base = note_path(call), expected(call, any_will_do=True)
        if call.request.content_type == "application/json":
            body = await call.body(WriteNoteRequest)
            data = body.content.encode("utf-8", "surrogateescape")
        else:
            data = await call.content()
        put = self._put(call, path, data, base, is_new=only_new(call))
        return await self._written(call, path, put)

    @delete(
        FOLDER + "{path:.+}", "vault", "write", for_path_keys=True, names=NAMES, headers=WRITING
    )
    async def remove(self, call: ApiCall) -> DeletedNote:
        """Delete a note; history keeps its text.

        With `If-Match`: only that text.
        """
        path, base = note_path(call), expected(call, any_will_do=True)
        deleting = run_uninterrupted(self._delete, call, path, base)
        digest = str((await self._done(call, path, deleting)).before)
        restore = (
            f"GET {FOLDER}{printable(path)}?version={digest} answers the text; PUT it to have the "
            "note back"
        )
        return DeletedNote(path, digest, restore)

    async def _written(
        self, call: ApiCall, path: VaultPath, act: Awaitable[WriteResult]
    ) -> WrittenNote:
        done = await self._done(call, path, act)
        call.status = 200 if done.before is not None else 201
        call.tag(done.after)
        return WrittenNote(path, str(done.after), done.before, done.changed, done.merged)

    async def _done(
        self, call: ApiCall, path: VaultPath, act: Awaitable[WriteResult]
    ) -> WriteResult:
        call.touched.append(path)
        written = await act
        if written.changed:
            await self._store.notice([path, written.path])
        return written

    async def _edited(
        self, call: ApiCall, path: VaultPath, edit: Edit, base: str | None
    ) -> WriteResult:
        """A few at once wait for the disk; the others wait here, not in threads that others need.

        But not where hooks are asked: their own writes must not wait for the one asked about.
        """

        def write() -> WriteResult:
            place, author = self._place(call, path, edit), author_of(self._store, call)
            return self._store.edit(place, edit, author, base=base, sees=call.reading.sees)

        if self._store.is_asked:
            return await run_uninterrupted(write)
        async with self._turns:
            return await run_uninterrupted(write)

    async def _put(
        self, call: ApiCall, path: VaultPath, data: bytes, base: str | None, *, is_new: bool
    ) -> WriteResult:
        if not is_new:
            try:
                return await self._edited(call, path, ReplaceAll(data=data), base)
            except NotFoundError:
                if "If-Match" in call.request.headers:
                    gone = f"{printable(path)} is not there; nothing was written"
                    raise ConflictError(
                        gone, base=b"", ours=data, theirs=b"", is_known=False
                    ) from None
        return await run_uninterrupted(self._create, call, path, data)

    def _create(self, call: ApiCall, path: VaultPath, data: bytes) -> WriteResult:
        place = self._place(call, path, ReplaceAll(data=data))
        return self._store.create(place, data, author_of(self._store, call))

    def _place(self, call: ApiCall, path: VaultPath, edit: Edit) -> VaultPath:
        """Where the note is, or would be, if it may be edited so."""
        place = writable(call, path)
        refuse_watching_beyond(
            call.reading, self._store, place, lambda before: apply_edit(edit, before)
        )
        return place

    def _delete(self, call: ApiCall, path: VaultPath, base: str | None) -> WriteResult:
        """The store refuses a name that is itself a link."""
        writable(call, path)
        return self._store.delete(path, author_of(self._store, call), base=base)


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
        moved = await run_uninterrupted(self._move, call, path, target, base, files)
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
