"""File streams: files of any size, read and written with little of them in memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiohttp import ClientError, web

from parachuted.api.http.decorators import get, put
from parachuted.api.http.file_answers import ANY_TYPE, MEDIA_TYPES, FileAnswers
from parachuted.api.http.route import (
    CREATING,
    KNOWN,
    ApiCall,
    MediaBody,
    expected,
    only_new,
    refuse_watching_beyond,
)
from parachuted.api.routes.note_writer import author_of, writable
from parachuted.errors import ConflictError, NotFoundError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.sync import FileDigests
from parachuted.vault import (
    NOTE_SUFFIXES,
    IncomingFile,
    Store,
    VaultPath,
    WriteResult,
    place_incoming,
    printable,
)

_LARGEST = 4 << 30
_FRONTMATTER = 1 << 20
_PIECE = 1 << 18
_CONTENT = (
    MediaBody(
        type=ANY_TYPE,
        says="The file, or the requested range of it, with the type that its name implies. Its "
        "ETag is its SHA-256.",
    ),
    *(
        MediaBody(type=kind, says="")
        for kind in dict.fromkeys(kind.partition(";")[0] for kind in MEDIA_TYPES.values())
    ),
)
_RANGE = {
    "Range": "Which bytes, such as `bytes=0-1023`.",
    "If-Range": "The ETag that the range is of; else the whole file comes.",
}


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """`replaced`: the digest of what was overwritten; history has it."""

    path: VaultPath
    size: int
    hash: str
    created: bool
    replaced: str | None


class FileStreamRoutes:
    def __init__(self, store: Store, digests: FileDigests) -> None:
        self._store = store
        self._files = FileAnswers(store.root, digests)

    @get(
        "/api/files/{path:.+}",
        "vault",
        "read",
        for_path_keys=True,
        answers={200: _CONTENT, 206: _CONTENT, 304: None},
        names={"path": "The file, relative to the vault."},
        headers={"If-None-Match": KNOWN, **_RANGE},
    )
    async def download(self, call: ApiCall, path: str) -> web.StreamResponse:
        """Any file, whole or a range of it."""
        path = VaultPath.parse(path)
        call.touched.append(path)
        return await self._files.answer(call.request, path, call.files.find)

    @put(
        "/api/files/{path:.+}",
        "vault",
        "write",
        for_path_keys=True,
        largest_body=_LARGEST,
        answers={200: UploadedFile, 201: UploadedFile},
        names={"path": "The file, relative to the vault."},
        headers=CREATING,
        uploads=MediaBody(type=ANY_TYPE, says="The whole file."),
    )
    async def upload(self, call: ApiCall, path: str) -> UploadedFile:
        """Create or replace any file with the body.

        Nothing is written unless the whole body arrived.
        """
        file = await asyncio.to_thread(writable, call, VaultPath.parse(path))
        base, is_new = expected(call), only_new(call)
        incoming = await run_uninterrupted(IncomingFile, self._store.objects)
        with incoming:
            await _receive(call, incoming)
            written = await run_uninterrupted(
                self._place, call, file, incoming, base, is_new=is_new
            )
        call.touched.append(file)
        await self._store.notice([file])
        is_new_file = written.before is None
        call.status = 201 if is_new_file else 200
        call.tag(incoming.digest)
        replaced = written.before if written.changed else None
        return UploadedFile(file, incoming.size, incoming.digest, is_new_file, replaced)

    def _place(
        self,
        call: ApiCall,
        path: VaultPath,
        incoming: IncomingFile,
        base: str | None,
        *,
        is_new: bool,
    ) -> WriteResult:
        if path.endswith(NOTE_SUFFIXES):
            text = incoming.beginning(_FRONTMATTER)
            refuse_watching_beyond(call.reading, self._store, path, lambda _before: text)
        author = author_of(self._store, call)
        try:
            return place_incoming(self._store, path, incoming, author, base=base, is_new=is_new)
        except ConflictError as error:
            raise web.HTTPConflict(text=error.message) from error
        except NotFoundError as error:
            raise web.HTTPConflict(
                text=f"{printable(path)} is not there; nothing was written"
            ) from error


async def _receive(call: ApiCall, incoming: IncomingFile) -> None:
    try:
        async for piece in call.chunks():
            await run_uninterrupted(incoming.write, piece)
    except (ConnectionError, ClientError, web.RequestPayloadError) as error:
        raise web.HTTPBadRequest(text="the upload was cut short; nothing was written") from error
    if call.request.content_length not in {None, incoming.size}:
        raise web.HTTPBadRequest(text="the upload was cut short; nothing was written")
