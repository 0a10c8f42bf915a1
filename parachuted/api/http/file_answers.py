"""File answers: the types of files, and the headers that keep a browser from running one."""

from __future__ import annotations

import os
from types import MappingProxyType
from urllib.parse import quote

from aiohttp import web

from parachuted.vault import VaultPath, printable

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


def bytes_answer(data: bytes, content_type: str, filename: str | None) -> web.Response:
    """What a browser could run, or does not know, is only ever sent to be saved."""
    kind = content_type.partition(";")[0]
    is_displayed = kind in _DISPLAYED and filename is None
    saved = {} if is_displayed else {"Content-Disposition": _saved_as(filename or "download")}
    headers = {**_INERT, "Content-Type": content_type, **saved}
    return web.Response(body=data, headers=headers)


def _saved_as(filename: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(printable(filename), safe='')}"


def headers_of(path: VaultPath, etag: str) -> dict[str, str]:
    kind = MEDIA_TYPES.get(os.path.splitext(path)[1].lower())  # noqa: PTH122  a name, not a path
    headers = {"ETag": etag, "Accept-Ranges": "bytes", "Content-Type": kind or ANY_TYPE, **_INERT}
    if kind is None:
        headers["Content-Disposition"] = _saved_as(path.name)
    return headers
