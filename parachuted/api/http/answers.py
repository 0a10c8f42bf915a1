"""Answers: JSON as bytes, fast."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import orjson
from aiohttp import web

from parachuted.json_limits import check_json


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

    A text that is no UTF-8, such as a model may send, is told with escapes: it keeps nobody from
    the rest.
    """
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        return orjson.dumps(_in_utf8(document))


def _in_utf8(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_in_utf8(key): _in_utf8(one) for key, one in value.items()}
    return [_in_utf8(one) for one in value] if isinstance(value, list | tuple) else value


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
