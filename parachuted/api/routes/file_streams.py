"""File streams: any file of the vault, of any size, out and in, with no more of it in memory than
is on its way.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re

from aiohttp import ClientError, web

from parachuted.api.http.answers import json_answer
from parachuted.api.http.decorators import get, put
from parachuted.api.http.file_answers import (
    ANY_TYPE,
    CREATING,
    KNOWN,
    MEDIA_TYPES,
    FileAnswers,
    expected,
    only_new,
)
from parachuted.api.http.route import ApiCall, MediaBody, readable, refuse_watching_beyond
from parachuted.api.routes.files import FileUploadResponse
from parachuted.api.routes.note_writer import NoteWriter, refuse_programs_but_to_admins
from parachuted.errors import ConflictError, NotFoundError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.sync import FileDigests
from parachuted.vault import (
    NOTE_SUFFIXES,
    Author,
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
_HEX = re.compile(r"[0-9a-fA-F]{64}")
_CONTENT_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):\s*(?:,|$)")
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
_CHECKED = {
    "X-Content-SHA256": "The SHA-256 of the body in hex; 422, with nothing written, when it is "
    "another.",
    "Content-Digest": "The same as `sha-256=:BASE64:`.",
}


class FileStreamRoutes:
    def __init__(self, store: Store, writer: NoteWriter, digests: FileDigests) -> None:
        self._store, self._writer = store, writer
        self._files = FileAnswers(store.root, digests)

    @get(
        "/api/files/{path:.+}",
        "vault",
        "read",
        reach="paths",
        answers={200: _CONTENT, 206: _CONTENT, 304: None},
        errors=(416,),
        names={"path": "The file, relative to the vault."},
        headers={"If-None-Match": KNOWN, **_RANGE},
    )
    async def download(self, call: ApiCall, path: str) -> web.StreamResponse:
        """Any file, whole or a range of it."""
        path = VaultPath.parse(path)
        call.touched.append(path)
        return await self._files.answer(call.request, path, call.sight.find)

    @put(
        "/api/files/{path:.+}",
        "vault",
        "write",
        reach="paths",
        largest_body=_LARGEST,
        answers={200: FileUploadResponse, 201: FileUploadResponse},
        names={"path": "The file, relative to the vault."},
        headers={**CREATING, **_CHECKED},
        uploads=MediaBody(type=ANY_TYPE, says="The whole file."),
    )
    async def upload(self, call: ApiCall, path: str) -> web.Response:
        """Create or replace any file with the body, which is checked against Content-Digest or
        X-Content-SHA256.

        Nothing is written unless the whole body arrived and matches.
        """
        file = await asyncio.to_thread(call.sight.find, VaultPath.parse(path))
        refuse_programs_but_to_admins(file, call.identity)
        base, is_new, declared = expected(call), only_new(call), _declared(call.request)
        incoming = await run_uninterrupted(IncomingFile, self._store.objects)
        with incoming:
            await _receive(call, incoming)
            if declared not in {None, incoming.digest}:
                raise web.HTTPUnprocessableEntity(
                    text=f"the body is of SHA-256 {incoming.digest}, not {declared}; nothing was "
                    "written"
                )
            if file.endswith(NOTE_SUFFIXES):
                beginning = await asyncio.to_thread(incoming.beginning, _FRONTMATTER)
                await asyncio.to_thread(
                    refuse_watching_beyond,
                    readable(call.identity),
                    self._store,
                    file,
                    lambda _before: beginning,
                )
            written = await self._place(
                file, incoming, self._writer.author(call.caller), base=base, is_new=is_new
            )
        call.touched.append(file)
        await self._writer.tell([file])
        answer: FileUploadResponse = {
            "path": printable(file),
            "size": incoming.size,
            "hash": incoming.digest,
            "created": written.before is None,
            "replaced": written.before if written.changed else None,
        }
        return json_answer(
            answer,
            status=201 if answer["created"] else 200,
            headers={"ETag": f'"{incoming.digest}"'},
        )

    async def _place(
        self,
        path: VaultPath,
        incoming: IncomingFile,
        author: Author,
        *,
        base: str | None,
        is_new: bool,
    ) -> WriteResult:
        try:
            return await run_uninterrupted(
                place_incoming,
                self._store,
                path,
                incoming,
                author,
                base=base,
                is_new=is_new,
            )
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


def _declared(request: web.Request) -> str | None:
    """The SHA-256 that the body is said to have, in hex. 400 when it cannot be read."""
    plain, structured = (
        request.headers.get("X-Content-SHA256"),
        request.headers.get("Content-Digest"),
    )
    if plain is not None:
        if _HEX.fullmatch(plain.strip()) is None:
            raise web.HTTPBadRequest(text="X-Content-SHA256 must be the SHA-256 of the body in hex")
        return plain.strip().lower()
    if structured is None:
        return None
    found = _CONTENT_DIGEST.search(structured)
    try:
        digest = base64.b64decode(found[1], validate=True).hex() if found is not None else ""
    except binascii.Error:
        digest = ""
    if _HEX.fullmatch(digest) is None:
        raise web.HTTPBadRequest(text="Content-Digest must hold sha-256=:BASE64:")
    return digest
