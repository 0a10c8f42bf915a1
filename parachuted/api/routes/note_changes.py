"""Note changes: one section or key, the whole of a note, and its end.

Each is a person's change, recorded, and none is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Annotated, Literal, Self

from aiohttp import web
from pydantic import (
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from typing_extensions import TypedDict

from parachuted.api.http.answers import json_answer, json_value
from parachuted.api.http.decorators import delete, patch, put
from parachuted.api.http.file_answers import CREATING, WRITING, expected, only_new
from parachuted.api.http.route import (
    ApiCall,
    MediaBody,
    RequestModel,
    readable,
    refuse_watching_beyond,
)
from parachuted.api.routes.note_reading import NoteReading
from parachuted.api.routes.note_writer import NoteWriter
from parachuted.api.routes.notes import FOLDER, note_path, writable
from parachuted.errors import ConflictError, EditRefusedError, NotFoundError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.vault import (
    AppendToSection,
    DeleteKey,
    Edit,
    ReplaceAll,
    ReplaceSection,
    SetFrontmatterKey,
    Store,
    VaultPath,
    WriteResult,
    apply_edit,
    printable,
)


class NoteWriteResponse(TypedDict):
    """What a write did.

    `before` and `hash` are the digests around it; `merged`: what others wrote meanwhile is in it
    too.
    """

    path: str
    hash: str
    before: str | None
    changed: bool
    merged: bool


class NoteDeleteResponse(TypedDict):
    """A note that is gone from the vault, and how to have it back."""

    path: str
    hash: str
    restore: str


_LARGEST = 64 << 20


_NO_TYPE = (
    "application/x-www-form-urlencoded"  # what curl says of every body whose type it does not know
)


_NAMES = {"path": "The note, relative to the vault."}


def _said(sentence: str) -> WrapValidator:
    """One sentence in place of one for each type that it might have been."""

    def check(value: object, inner: ValidatorFunctionWrapHandler) -> object:
        try:
            return inner(value)
        except ValidationError as error:
            raise ValueError(sentence) from error

    return WrapValidator(check)


_SECTION = (
    'Its title, looked for at level 2 first, then at any, or its heading path: "Tea > Facts", or '
    'the titles, ["Tea", "Facts"]. '
    "A name that several sections have is refused (422)."
)


_OCCURRENCE = (
    "Which one, from 1 in the order of the note, where several sections have the same "
    "name and path."
)


class PatchNoteRequest(RequestModel):
    """One section (`content`, `mode`, `create`), or one top-level key of the frontmatter (`value`,
    or `delete`).
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"section": "Facts", "content": "Beans.", "create": True}]}
    )

    section: Annotated[
        str | list[str] | None,
        _said("should be a title, or a list of the titles on the way to it"),
        Field(description=_SECTION),
    ] = None
    occurrence: Annotated[
        Annotated[int, Field(ge=1, strict=True)] | None, Field(description=_OCCURRENCE)
    ] = None
    content: str | None = None
    mode: Literal["replace", "append"] = "replace"
    create: Annotated[bool, Field(strict=True)] = False
    key: str | None = None
    value: Annotated[
        bool | int | float | str | list[str] | None,
        _said("should be a text, a number, true or false, or a list of texts"),
    ] = None
    delete: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _names_one_place(self) -> Self:
        if (self.section is None) == (self.key is None):
            raise ValueError("name a section or a key, and not both")
        if self.section == []:
            raise ValueError("section: should have at least one title")
        if self.occurrence is not None and (self.section is None or self.create):
            raise ValueError(
                "an occurrence is one of a section that is there: it takes a section, and no create"
            )
        if self.section is not None and (
            self.content is None or self.value is not None or self.delete
        ):
            raise ValueError("a section takes content, and neither value nor delete")
        if self.key is not None and (
            self.content is not None or (self.value is None) != self.delete
        ):
            raise ValueError("a key takes either a value or delete: true, and no content")
        return self

    @property
    def edit(self) -> Edit:
        if self.section is not None:
            make = ReplaceSection if self.mode == "replace" else AppendToSection
            section = self.section if isinstance(self.section, str) else tuple(self.section)
            return make(
                section=section,
                content=self.content or "",
                create=self.create,
                occurrence=self.occurrence,
                is_only=True,
            )
        key = self.key or ""
        return (
            DeleteKey(key=key)
            if self.value is None
            else SetFrontmatterKey(key=key, value=self.value)
        )


class WriteNoteRequest(RequestModel):
    """The whole text.

    It may also be sent as it is: with any type but JSON, or, where it looks like this object, as
    `text/markdown`.
    """

    content: str


class NoteChangeRoutes:
    def __init__(self, store: Store, reading: NoteReading, writer: NoteWriter) -> None:
        self._store, self._reading, self._writer = store, reading, writer

    @patch(
        FOLDER + "{path:.+}",
        "vault",
        "write",
        reach="paths",
        body=PatchNoteRequest,
        names=_NAMES,
        headers=WRITING,
        answers={200: NoteWriteResponse},
    )
    async def edit(self, call: ApiCall) -> web.Response:
        """Change one section or one key of a note.

        With `If-Match`: based on that text; without: applied to the current one.
        """
        path, base = note_path(call), expected(call, any_will_do=True)
        edit = (await call.body(PatchNoteRequest)).edit
        return _response(
            path, await self._written(call, path, self._edited(call, path, edit, base))
        )

    @put(
        FOLDER + "{path:.+}",
        "vault",
        "write",
        reach="paths",
        body=WriteNoteRequest,
        names=_NAMES,
        headers=CREATING,
        uploads=MediaBody(type="text/markdown", says="The note, byte for byte."),
        answers={200: NoteWriteResponse, 201: NoteWriteResponse},
        largest_body=_LARGEST,
    )
    async def write(self, call: ApiCall) -> web.Response:
        """Create a note or replace its text.

        With `If-Match`: replaces that text; with `If-None-Match: *`: only creates.
        """
        path, base = note_path(call), expected(call, any_will_do=True)
        is_json = call.request.content_type == "application/json"
        data = (
            (await call.body(WriteNoteRequest)).content.encode("utf-8", "surrogateescape")
            if is_json
            else _meant(call, await call.content())
        )
        return _response(
            path,
            await self._written(
                call, path, self._put(call, path, data, base, is_new=only_new(call))
            ),
        )

    @delete(
        FOLDER + "{path:.+}",
        "vault",
        "write",
        reach="paths",
        names=_NAMES,
        headers=WRITING,
        answers={200: NoteDeleteResponse},
    )
    async def remove(self, call: ApiCall) -> dict[str, object]:
        """Delete a note; history keeps its text.

        With `If-Match`: only that text.
        """
        path, base = note_path(call), expected(call, any_will_do=True)
        written = await self._written(call, path, run_uninterrupted(self._delete, call, path, base))
        restore = (
            f"GET {FOLDER}{printable(path)}?version={written.before} answers the text; PUT "
            "it to have the note back"
        )
        return {"path": printable(path), "hash": written.before, "restore": restore}

    async def _written(
        self, call: ApiCall, path: VaultPath, act: Awaitable[WriteResult]
    ) -> WriteResult:
        call.touched.append(printable(path))
        try:
            written = await act
        except ConflictError as error:
            raise call.conflict(error, path) from None
        except (NotFoundError, EditRefusedError) as error:
            raise await asyncio.to_thread(call.refusal, error, path) from None
        if written.changed:
            await self._writer.tell([path, written.path])
        return written

    async def _edited(
        self, call: ApiCall, path: VaultPath, edit: Edit, base: str | None
    ) -> WriteResult:
        """A text that was just served may still be on its way to where bases are kept."""
        if base is not None:
            await self._reading.kept()
        await self._refuse_watching(call, path, edit)
        return await self._writer.edit(
            lambda: writable(call, path),
            edit,
            call.caller,
            base=None if base == "*" else base,
            sees=call.reading.sees,
        )

    async def _put(
        self, call: ApiCall, path: VaultPath, data: bytes, base: str | None, *, is_new: bool
    ) -> WriteResult:
        if not is_new:
            try:
                return await self._edited(call, path, ReplaceAll(data=data), base)
            except NotFoundError:
                if base is not None:
                    gone = f"{printable(path)} is not there; nothing was written"
                    raise ConflictError(
                        gone, base=b"", ours=data, theirs=b"", is_known=False
                    ) from None
        await self._refuse_watching(call, path, ReplaceAll(data=data))
        return await run_uninterrupted(
            lambda: self._store.create(writable(call, path), data, self._writer.author(call.caller))
        )

    async def _refuse_watching(self, call: ApiCall, path: VaultPath, edit: Edit) -> None:
        grant = readable(call.identity)
        if grant.alternatives is not None:
            real = await asyncio.to_thread(writable, call, path)
            await asyncio.to_thread(
                refuse_watching_beyond,
                grant,
                self._store,
                real,
                lambda before: apply_edit(edit, before),
            )

    def _delete(self, call: ApiCall, path: VaultPath, base: str | None) -> WriteResult:
        """A name that is itself a link is refused by the store: neither it nor what it leads to is
        what was meant.
        """
        writable(call, path)
        return self._store.delete(
            path, self._writer.author(call.caller), base=None if base == "*" else base
        )


def _meant(call: ApiCall, data: bytes) -> bytes:
    """The text; a `{"content"}` without a type of its own, as curl sends it, is meant as
    JSON.
    """
    kind = call.request.headers.get("Content-Type", _NO_TYPE).partition(";")[0].strip().lower()
    if kind != _NO_TYPE or not data.lstrip().startswith(b"{"):
        return data
    try:
        document = json_value(data)
    except ValueError:
        return data
    content = document.get("content") if isinstance(document, dict) and len(document) == 1 else None
    try:
        return content.encode("utf-8", "surrogateescape") if isinstance(content, str) else data
    except UnicodeEncodeError as error:
        raise web.HTTPBadRequest(text="content: should be a text of Unicode") from error


def _response(path: VaultPath, written: WriteResult) -> web.Response:
    answer: dict[str, object] = {
        "path": printable(path),
        "hash": written.after,
        "before": written.before,
        "changed": written.changed,
        "merged": written.merged,
    }
    return json_answer(
        answer,
        status=200 if written.before is not None else 201,
        headers={"ETag": f'"{written.after}"'},
    )
