"""File streams: any file of the vault, of any size, out and in, with no more of it in memory than
is on its way.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote
from weakref import WeakValueDictionary

from aiohttp import ClientError, web

from parachuted.access.filter import unknown
from parachuted.api.http.answers import json_answer
from parachuted.api.http.decorators import get, put
from parachuted.api.http.parts import ApiParts
from parachuted.api.http.preconditions import CREATING, KNOWN, etags, expected, only_new
from parachuted.api.http.route import ApiCall, MediaBody
from parachuted.api.http.watching import readable, refuse_watching_beyond
from parachuted.api.routes import files_documents as told
from parachuted.api.routes.writable import refuse_programs_but_to_admins
from parachuted.api.routes.write_batcher import WriteBatcher
from parachuted.errors import ConflictError, NotFoundError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.sync import FileDigests
from parachuted.vault import (
    NOTE_SUFFIXES,
    IncomingFile,
    VaultPath,
    WriteResult,
    named_errors,
    printable,
)

_LARGEST = 4 << 30
_FRONTMATTER = 1 << 20
_PIECE = 1 << 18
_KEPT_BYTES = 1 << 20
_HEX = re.compile(r"[0-9a-fA-F]{64}")
_CONTENT_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):\s*(?:,|$)")
_TYPES = {
    ".md": "text/markdown; charset=utf-8",
    ".markdown": "text/markdown; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".pdf": "application/pdf",
}
_ANY = "application/octet-stream"
_CONTENT = (
    MediaBody(
        type=_ANY,
        says="The file, or the requested range of it, with the type that its name implies. Its "
        "ETag is its SHA-256.",
    ),
    *(
        MediaBody(type=kind, says="")
        for kind in dict.fromkeys(kind.partition(";")[0] for kind in _TYPES.values())
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


_NO_BYTES = re.compile("bytes=-0+", re.IGNORECASE)  # the last none, which aiohttp takes for all


@dataclass(slots=True, kw_only=True)
class _Open:
    """An open file: its digest, and its status when that was found."""

    descriptor: int
    digest: str
    status: os.stat_result

    @property
    def etag(self) -> str:
        return f'"{self.digest}"'

    def is_as_it_was(self) -> bool:
        now = os.fstat(self.descriptor)
        return (now.st_mtime_ns, now.st_size) == (self.status.st_mtime_ns, self.status.st_size)


class FileStreamRoutes:
    """The routes of whole files."""

    def __init__(self, parts: ApiParts, desk: WriteBatcher, digests: FileDigests) -> None:
        self._parts, self._desk, self._digests = parts, desk, digests
        self._placing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

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
        async with self._opened(path, call) as file:
            headers = _headers(path, file.etag)
            if not {file.digest, "*"}.isdisjoint(etags(call.request.headers.get("If-None-Match"))):
                return web.Response(status=304, headers={"ETag": file.etag})
            start, stop, status = _range(call.request, file)
            if status == web.HTTPPartialContent.status_code:
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.status.st_size}"
            response = web.StreamResponse(status=status, headers=headers)
            response.content_length = stop - start
            await response.prepare(call.request)
            if call.request.method != "HEAD":
                await _send(call.request, response, file, start, stop)
            return response

    @put(
        "/api/files/{path:.+}",
        "vault",
        "write",
        reach="paths",
        largest_body=_LARGEST,
        answers={200: told.FileUploadResponse, 201: told.FileUploadResponse},
        names={"path": "The file, relative to the vault."},
        headers={**CREATING, **_CHECKED},
        uploads=MediaBody(type=_ANY, says="The whole file."),
    )
    async def upload(self, call: ApiCall, path: str) -> web.Response:
        """Create or replace any file with the body, which is checked against Content-Digest or
        X-Content-SHA256.

        Nothing is written unless the whole body arrived and matches.
        """
        file = await asyncio.to_thread(call.sight.find, VaultPath.parse(path))
        refuse_programs_but_to_admins(file, call.identity)
        base, is_new, declared = expected(call), only_new(call), _declared(call.request)
        incoming = await run_uninterrupted(IncomingFile, self._parts.objects)
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
                    self._parts.store,
                    file,
                    lambda _before: beginning,
                )
            written = await self._place(file, incoming, base=base, is_new=is_new)
        call.touched.append(file)
        await self._desk.tell([file])
        answer: told.FileUploadResponse = {
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
        self, path: VaultPath, incoming: IncomingFile, *, base: str | None, is_new: bool
    ) -> WriteResult:
        """Put it in its place.

        Notes stay kept beside, as bases of merges; large files do not take their room twice.
        """
        is_kept, is_first = False, False
        async with self._placing.setdefault(incoming.digest, asyncio.Lock()):
            try:
                is_first = await run_uninterrupted(incoming.keep)
                written = await run_uninterrupted(
                    self._parts.store.place,
                    path,
                    incoming.digest,
                    self._desk.author(),
                    base=base,
                    is_new=is_new,
                )
                is_kept = path.endswith(NOTE_SUFFIXES) or incoming.size <= _KEPT_BYTES
            except ConflictError as error:
                raise web.HTTPConflict(text=error.message) from error
            except NotFoundError as error:
                raise web.HTTPConflict(
                    text=f"{printable(path)} is not there; nothing was written"
                ) from error
            finally:
                if is_first and not is_kept:
                    self._parts.objects.drop(incoming.digest)
        return written

    @contextlib.asynccontextmanager
    async def _opened(self, path: VaultPath, call: ApiCall) -> AsyncIterator[_Open]:
        file = await asyncio.to_thread(self._open, path, call)
        try:
            yield file
        finally:
            os.close(file.descriptor)

    def _open(self, path: VaultPath, call: ApiCall) -> _Open:
        real = call.sight.find(path)
        try:
            with named_errors(path), self._parts.root.opened_file(real) as descriptor:
                digest = self._digests.digest(real, descriptor)
                return _Open(
                    descriptor=os.dup(descriptor), digest=digest, status=os.fstat(descriptor)
                )
        except NotFoundError as error:
            raise unknown(path) from error


async def _receive(call: ApiCall, incoming: IncomingFile) -> None:
    try:
        async for piece in call.chunks():
            await run_uninterrupted(incoming.write, piece)
    except (ConnectionError, ClientError, web.RequestPayloadError) as error:
        raise web.HTTPBadRequest(text="the upload was cut short; nothing was written") from error
    if call.request.content_length not in {None, incoming.size}:
        raise web.HTTPBadRequest(text="the upload was cut short; nothing was written")


async def _send(
    request: web.Request, response: web.StreamResponse, file: _Open, start: int, stop: int
) -> None:
    """Send that range; the connection is cut when it is no longer what its headers said."""
    try:
        while start < stop:
            piece = await asyncio.to_thread(
                os.pread, file.descriptor, min(_PIECE, stop - start), start
            )
            if not piece or not file.is_as_it_was():
                break
            await response.write(piece)
            start += len(piece)
    except ConnectionError:
        return  # who asked has gone
    if start < stop and request.transport is not None:
        request.transport.abort()


def _headers(path: VaultPath, etag: str) -> dict[str, str]:
    """What a browser could run is only ever handed over to be saved."""
    kind = _TYPES.get(os.path.splitext(path)[1].lower())  # noqa: PTH122  a name, not a path
    headers = {
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Content-Type": kind or _ANY,
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "private, no-cache",
    }
    if kind is None:
        headers["Content-Disposition"] = (
            f"attachment; filename*=UTF-8''{quote(printable(path.name), safe='')}"
        )
    return headers


def _range(request: web.Request, file: _Open) -> tuple[int, int, int]:
    """Where to begin and stop, and the status. 416 when there is nothing in the range; a range that
    makes no sense is none.
    """
    size, whole = file.status.st_size, (0, file.status.st_size, 200)
    if request.headers.get("If-Range", file.etag) != file.etag or "Range" not in request.headers:
        return whole
    try:
        asked = request.http_range
    except ValueError:
        return whole
    start = size if _NO_BYTES.fullmatch(request.headers["Range"]) else asked.start or 0
    start = max(0, size + start) if start < 0 else start
    stop = size if asked.stop is None else min(asked.stop, size)
    if start >= stop:
        raise web.HTTPRequestRangeNotSatisfiable(
            headers={"Content-Range": f"bytes */{size}"}, text=f"the file has {size} bytes"
        )
    return start, stop, 206


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
