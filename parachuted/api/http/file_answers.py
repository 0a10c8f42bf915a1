"""File answers: a file of the vault, whole or a range of it, streamed."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from urllib.parse import quote

from aiohttp import web

from parachuted.access.filter import unknown
from parachuted.api.http.route import is_known
from parachuted.errors import NotFoundError
from parachuted.sync import FileDigests
from parachuted.vault import VaultPath, VaultRoot, named_errors, printable

_PIECE = 1 << 18
MEDIA_TYPES = {
    **dict.fromkeys((".md", ".markdown"), "text/markdown; charset=utf-8"),
    ".txt": "text/plain; charset=utf-8",
    ".pdf": "application/pdf",
    **{f".{kind}": f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp")},
    ".jpg": "image/jpeg",
    **dict.fromkeys((".ogg", ".opus"), "audio/ogg"),
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
}
ANY_TYPE = "application/octet-stream"
_NO_BYTES = re.compile("bytes=-0+", re.IGNORECASE)  # the last none, which aiohttp takes for all


_INERT = MappingProxyType(
    {
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "private, no-cache",
    }
)
_DISPLAYED = frozenset(
    {kind.partition(";")[0] for kind in MEDIA_TYPES.values()} | {"application/json", "text/csv"}
)


@dataclass(frozen=True, slots=True)
class _Open:
    descriptor: int
    digest: str
    status: os.stat_result

    @property
    def etag(self) -> str:
        return f'"{self.digest}"'

    def is_as_it_was(self) -> bool:
        now = os.fstat(self.descriptor)
        return (now.st_mtime_ns, now.st_size) == (self.status.st_mtime_ns, self.status.st_size)


class FileAnswers:
    def __init__(self, root: VaultRoot, digests: FileDigests) -> None:
        self._root, self._digests = root, digests

    async def answer(
        self,
        request: web.Request,
        path: VaultPath,
        find: Callable[[VaultPath], VaultPath],
    ) -> web.StreamResponse:
        """The file, as far as `find` finds it, which raises NotFoundError."""
        file = await asyncio.to_thread(self._open, path, find)
        try:
            headers = _headers(path, file.etag)
            if is_known(request, file.digest):
                return web.Response(status=304, headers={"ETag": file.etag})
            start, stop, status = _range(request, file)
            if status == HTTPStatus.PARTIAL_CONTENT:
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.status.st_size}"
            response = web.StreamResponse(status=status, headers=headers)
            response.content_length = stop - start
            await response.prepare(request)
            if request.method != "HEAD":
                await _send(request, response, file, start, stop)
            return response
        finally:
            os.close(file.descriptor)

    def _open(self, path: VaultPath, find: Callable[[VaultPath], VaultPath]) -> _Open:
        real = find(path)
        try:
            with named_errors(path), self._root.opened_file(real) as descriptor:
                digest = self._digests.digest(real, descriptor)
                return _Open(os.dup(descriptor), digest, os.fstat(descriptor))
        except NotFoundError as error:
            raise unknown(path) from error


def bytes_answer(data: bytes, content_type: str, filename: str | None) -> web.Response:
    """What a browser could run, or does not know, is only ever sent to be saved."""
    kind = content_type.partition(";")[0]
    is_displayed = kind in _DISPLAYED and filename is None
    saved = {} if is_displayed else {"Content-Disposition": _saved_as(filename or "download")}
    headers = {**_INERT, "Content-Type": content_type, **saved}
    return web.Response(body=data, headers=headers)


def _saved_as(filename: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(printable(filename), safe='')}"


async def _send(
    request: web.Request, response: web.StreamResponse, file: _Open, start: int, stop: int
) -> None:
    """Cut the connection when the file is no longer what the headers said.

    Not aiohttp's `FileResponse`, which opens a path and whose ETag is not of the content.
    """
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
    kind = MEDIA_TYPES.get(os.path.splitext(path)[1].lower())  # noqa: PTH122  a name, not a path
    headers = {"ETag": etag, "Accept-Ranges": "bytes", "Content-Type": kind or ANY_TYPE, **_INERT}
    if kind is None:
        headers["Content-Disposition"] = _saved_as(path.name)
    return headers


def _range(request: web.Request, file: _Open) -> tuple[int, int, int]:
    """Start, stop and status; a range that makes no sense counts as none."""
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
