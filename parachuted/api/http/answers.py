"""Answers: values as JSON, fast; files, which a browser must not run; and each error as the answer
that says what to do.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from http.client import responses
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import quote

import orjson
from aiohttp import web

from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    AgentUnavailableError,
    BodyTooLargeError,
    ConfigError,
    ConflictError,
    EditRefusedError,
    ModuleFailedError,
    NotFoundError,
    OutdatedError,
    ParachuteError,
    PathRefusedError,
    RequestBodyError,
    StorageFailedError,
    UnfitError,
    UntrustedError,
)
from parachuted.modules.registry.manifest import ManifestError
from parachuted.texts.adapters import late_adapter
from parachuted.texts.json_limits import check_json
from parachuted.vault import VaultPath, digest_of, printable

log = logging.getLogger(__name__)

JSON: Final = "application/json; charset=utf-8"
STREAM_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
_INT_BITS: Final = 64  # from here on orjson may refuse it


def answer_writer(kind: object) -> Callable[[object], bytes]:
    """What writes values of that type as JSON; made at the first value, since few are needed."""
    adapter = late_adapter(cast("type[Any]", kind))

    def write(value: object) -> bytes:
        try:
            return adapter().dump_json(value, by_alias=True, warnings=False)
        except ValueError:  # a text that is not UTF-8
            return json_bytes(
                adapter().dump_python(value, mode="json", by_alias=True, warnings=False)
            )

    return write


def json_answer(
    document: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=json_bytes(document), status=status, headers={"Content-Type": JSON, **(headers or {})}
    )


def json_bytes(document: object) -> bytes:
    """The document as JSON.

    A text that is not UTF-8 is sent with escapes, an integer beyond 64 bits as it is.
    """
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        return orjson.dumps(_encodable(document))


def _encodable(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int) and value.bit_length() >= _INT_BITS:
        return orjson.Fragment(str(value).encode())
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(one) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _encodable(getattr(value, field.name)) for field in fields(value)}
    return [_encodable(one) for one in value] if isinstance(value, list | tuple) else value


def json_value(data: bytes) -> object:
    """Raises ValueError. Not orjson: names of files may hold lone surrogates."""
    check_json(data)
    try:
        return json.loads(data, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_STATUS: Mapping[type[Exception], int] = {
    PathRefusedError: 400,
    RequestBodyError: 400,
    ActRefusedError: 403,
    NotFoundError: 404,
    ConfigError: 409,
    OutdatedError: 409,
    ConflictError: 409,
    BodyTooLargeError: 413,
    EditRefusedError: 422,
    UnfitError: 422,
    ManifestError: 422,
    AgentFailedError: 502,
    ModuleFailedError: 502,
    AgentUnavailableError: 503,
    UntrustedError: 503,
    StorageFailedError: 507,
}
_KEPT = ("Allow", "Content-Range", "Retry-After", "WWW-Authenticate", "ETag")
_DETAILS = {
    400: "`/api/docs`, in a browser, shows what each call takes",
    401: "A key is sent as `Authorization: Bearer KEY` or `X-API-Key: KEY`; `parachute keys "
    "create` makes one",
    403: "`parachute keys list` shows what each key may do, `parachute hooks list` which hooks "
    "may object",
    404: "A key that may not see it gets the same answer",
    405: "The header `Allow` names the methods that it takes",
    409: "Read what is there now, and repeat the call on that; where there is a `conflict`, it "
    "holds the texts",
    413: "Files of any kind, of up to 4 GB, are taken by PUT /api/files/{path}",
    416: "The header `Content-Range` says how many bytes there are",
    422: "`/api/docs`, in a browser, shows what the call takes; nothing was written",
    501: "`parachute modules list` shows which modules there are",
    502: "`parachute doctor` shows what is wrong with modules and with the model",
    503: "Come back later; `parachute doctor` shows what is wrong",
    507: "`parachute doctor` shows what is wrong with the disk; nothing was written",
}
_SAYS = {
    404: "unknown call; GET /api/docs, in a browser, lists them",
    405: "this call takes another method",
}


def error_body(status: int, message: str, request_id: str) -> dict[str, object]:
    """The body of every error: `message` is what is wrong, `detail` that and what to do."""
    advice = _DETAILS.get(status, f"`parachute logs` may say more, under {request_id}")
    return {
        "error": responses.get(status, "Error"),
        "message": message,
        "detail": f"{message.removesuffix('.')}. {advice}.",
        "request_id": request_id,
    }


def answer_to(error: Exception, request: web.BaseRequest, request_id: str) -> web.Response:
    """An unexpected error is logged whole, and the caller gets only its id."""
    status, headers, more = status_of(error), dict[str, str](), dict[str, object]()
    if isinstance(error, web.HTTPException):
        status, message = error.status, http_sentence(error)
        headers = {name: error.headers[name] for name in _KEPT if name in error.headers}
    elif isinstance(error, ParachuteError):
        message = error.message
        more = _conflict(error) if isinstance(error, ConflictError) else {}
    elif isinstance(error, web.RequestPayloadError) or (
        isinstance(error, ConnectionError) and request.transport is None
    ):
        status, message = 400, "the body was not what was announced"
    else:
        route = request.match_info.route.resource if isinstance(request, web.Request) else ""
        more_of = {"request_id": request_id, "route": str(route)}
        log.error("a request failed", exc_info=error, extra=more_of)
        message = f"something unexpected went wrong; the log has it under {request_id}"
    body = {**error_body(status, message, request_id), **more}
    return json_answer(body, status=status, headers=headers)


def status_of(error: Exception) -> int:
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)


def _conflict(error: ConflictError) -> dict[str, object]:
    """The three texts, and the digest that the next `If-Match` may name."""
    texts = {"base": error.base, "ours": error.ours, "theirs": error.theirs}
    decoded = {name: text.decode("utf-8", "replace") for name, text in texts.items()}
    return {"conflict": {**decoded, "hash": digest_of(error.theirs) if error.is_known else None}}


def http_sentence(error: web.HTTPException) -> str:
    """What the error says; aiohttp's own text only repeats its status."""
    says = error.text or ""
    is_own = bool(says) and not says.startswith(f"{error.status}: ")
    return says if is_own else _SAYS.get(error.status, error.reason)


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
