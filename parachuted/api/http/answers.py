"""Answers: JSON as bytes, fast; and each error as the answer that says what to do."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from http.client import responses
from typing import Final

import orjson
from aiohttp import web

from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    AgentUnavailableError,
    BodyTooLargeError,
    ConflictError,
    EditRefusedError,
    ModuleFailedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    RequestBodyError,
    StorageFailedError,
)
from parachuted.hooks import ScriptChangedError
from parachuted.json_limits import check_json
from parachuted.keys import KeysRefusedError, NameTakenError
from parachuted.modules.registry.approved import ApprovalRefusedError
from parachuted.modules.registry.arguments import WrongArgumentsError
from parachuted.modules.registry.copies import TreeRefusedError
from parachuted.modules.registry.environment import EnvironmentFailedError
from parachuted.modules.registry.install import InstallRefusedError
from parachuted.modules.registry.manifest import ManifestError
from parachuted.modules.registry.module_registry import ModuleRegistryError
from parachuted.vault import digest_of

_INT_BITS: Final = 64  # from here on orjson may refuse it


def json_answer(
    document: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An answer of that document: dictionaries, lists, tuples, texts, numbers, dataclasses,
    datetimes with a zone.
    """
    return web.Response(
        body=json_bytes(document),
        status=status,
        headers=headers,
        content_type="application/json",
        charset="utf-8",
    )


def json_bytes(document: object) -> bytes:
    """The same as bytes.

    A text that is not UTF-8, such as a model may send, is sent with escapes, so callers get the
    rest; an integer beyond 64 bits, such as a note or a caller may hold, as it is.
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
        return {one.name: _encodable(getattr(value, one.name)) for one in fields(value)}
    return [_encodable(one) for one in value] if isinstance(value, list | tuple) else value


def pieced_answer(name: str, pieces: Iterable[bytes]) -> web.Response:
    """An answer of one list under that name, in pieces of JSON that were made before; each has at
    least one item.
    """
    body = b'{"' + name.encode() + b'":[' + b",".join(pieces) + b"]}"
    return web.Response(body=body, content_type="application/json", charset="utf-8")


def json_value(data: bytes) -> object:
    """What the JSON says.

    Raises ValueError when it is none, or too much. Not orjson: names of files may hold lone
    surrogates.
    """
    check_json(data)
    try:
        return json.loads(data, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


log = logging.getLogger(__name__)

_STATUS: dict[type[ParachuteError], int] = {
    NotFoundError: 404,
    PathRefusedError: 400,
    EditRefusedError: 422,
    ActRefusedError: 403,
    ModuleFailedError: 502,
    ManifestError: 422,
    WrongArgumentsError: 422,
    InstallRefusedError: 422,
    TreeRefusedError: 422,
    ApprovalRefusedError: 409,
    EnvironmentFailedError: 502,
    ModuleRegistryError: 503,
    AgentFailedError: 502,
    AgentUnavailableError: 503,
    ConflictError: 409,
    StorageFailedError: 507,
    RequestBodyError: 400,
    BodyTooLargeError: 413,
    KeysRefusedError: 503,
    NameTakenError: 409,
    ScriptChangedError: 409,
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
    429: "The header `Retry-After` says in how many seconds to come back",
    501: "`parachute modules list` shows which modules there are",
    502: "`parachute doctor` shows what is wrong with modules and with the model",
    503: "Come back later; `parachute doctor` shows what is wrong",
    507: "`parachute doctor` shows what is wrong with the disk; nothing was written",
}
_SAYS = {
    404: "unknown call; GET /api/docs, in a browser, lists them",
    405: "this call takes another method",
}


def error_body(status: int, message: str, request_id: str) -> dict[str, str]:
    """The body of every error, with all names that older callers read: `message` what is wrong,
    `detail` that and what to do.
    """
    detail = (
        f"{message.removesuffix('.')}. "
        f"{_DETAILS.get(status, f'`parachute logs` may say more, under {request_id}')}."
    )
    return {
        "error": responses.get(status, "Error"),
        "message": message,
        "detail": detail,
        "request_id": request_id,
    }


def answer_to(error: Exception, request: web.BaseRequest, request_id: str) -> web.Response:
    """The answer to an error; an unexpected one is logged whole, and the caller gets only
    its id.
    """
    if isinstance(error, web.HTTPException):
        return _answer(error.status, http_sentence(error), request_id, headers=error.headers)
    if isinstance(error, ParachuteError):
        return _answer(status_of(error), error.message, request_id, more=_more(error))
    if isinstance(error, web.RequestPayloadError) or (
        isinstance(error, ConnectionError) and request.transport is None
    ):
        return _answer(400, "the body was not what was announced", request_id)
    log.error(
        "a request failed",
        exc_info=error,
        extra={"request_id": request_id, "route": _route(request)},
    )
    return _answer(
        500, f"something unexpected went wrong; the log has it under {request_id}", request_id
    )


def status_of(error: Exception) -> int:
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)


def _route(request: web.BaseRequest) -> str:
    return str(request.match_info.route.resource) if isinstance(request, web.Request) else ""


def _more(error: ParachuteError) -> dict[str, object]:
    """A conflict carries both texts, whole, the one that both began with, and the digest that the
    next `If-Match` may name.
    """
    if not isinstance(error, ConflictError):
        return {}
    texts = {"base": error.base, "ours": error.ours, "theirs": error.theirs}
    decoded = {name: text.decode("utf-8", "replace") for name, text in texts.items()}
    return {"conflict": {**decoded, "hash": digest_of(error.theirs) if error.is_known else None}}


def http_sentence(error: web.HTTPException) -> str:
    """What the error says; aiohttp's own text only repeats its status."""
    says = error.text or ""
    return (
        _SAYS.get(error.status, error.reason)
        if not says or says.startswith(f"{error.status}: ")
        else says
    )


def _answer(
    status: int,
    message: str,
    request_id: str,
    *,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, object] | None = None,
) -> web.Response:
    kept = {name: headers[name] for name in _KEPT if headers and name in headers}
    return json_answer(
        {**error_body(status, message, request_id), **(more or {})}, status=status, headers=kept
    )
