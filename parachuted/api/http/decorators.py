"""Decorators: they make a method the handler of a route."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MethodType
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict, is_typeddict

from parachuted.api.http.answers import answer_writer, json_bytes
from parachuted.api.http.route import (
    ApiCall,
    AppRequestModel,
    RequestModel,
    Route,
    RouteHandler,
    Wrapped,
)
from parachuted.keys import Capability

_Handler = TypeVar("_Handler", bound=Callable[..., Awaitable[object]])
_DECLARED = "__routes__"
_IN_PATH = re.compile(r"\{(\w+)")


def _route(
    http_method: str,
    path: str,
    module: str,
    capability: Capability | None,
    *,
    wrapped: str = "",
    counted: bool = False,
    for_app: bool = False,
    **options: object,
) -> Callable[[_Handler], _Handler]:
    """Make a method the handler of that path; `options` are fields of `Route`.

    The first paragraph of its docstring is the summary. It takes `call`, `query`, `body` and values
    of the path by name (`id_` for `id`); its other parameters are the query (`for_app`: unknown
    names are ignored). What it returns is sent as JSON of its annotation, with `wrapped` under that
    name, with `counted` beside its length.
    """

    def declare(handler: _Handler) -> _Handler:
        def bind(owner: object) -> Route:
            hints = inspect.get_annotations(handler, eval_str=True)
            returned = hints.pop("return")
            answer = Wrapped(wrapped, returned, counted) if wrapped else returned
            # `issubclass` asks a mapping's abstract class, whose answer takes milliseconds.
            is_response = web.StreamResponse in getattr(returned, "__mro__", ())
            declared: dict[str, Any] = {} if is_response else {"answers": {200: answer}}
            declared |= {name: hints[name] for name in ("query", "body") if name in hints}
            fields = _asked(handler, hints, path)
            base = AppRequestModel if for_app else RequestModel
            asked = create_model("Query", __base__=base, **fields) if fields else None
            if asked is not None:
                declared["query"] = asked
            method: Any = MethodType(handler, owner)
            is_bare = is_response and [*hints] == ["call"]
            return Route(
                method=http_method,
                path=path,
                module=module,
                capability=capability,
                summary=" ".join((handler.__doc__ or "").partition("\n\n")[0].split()),
                handle=method if is_bare else _bound(method, hints, asked, answer),
                **(declared | options),
            )

        setattr(handler, _DECLARED, [bind, *getattr(handler, _DECLARED, ())])
        return handler

    return declare


get, post, put, patch, delete = (
    partial(_route, name) for name in ("GET", "POST", "PUT", "PATCH", "DELETE")
)


def routes_of(*owners: object) -> list[Route]:
    return [
        bind(owner)
        for owner in owners
        for member in vars(type(owner)).values()
        for bind in getattr(member, _DECLARED, ())
    ]


def _asked(handler: Callable[..., object], hints: Mapping[str, Any], path: str) -> dict[str, Any]:
    known = {"call", "query", "body", *_IN_PATH.findall(path)}
    return {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(handler).parameters.items()
        if name in hints and name.removesuffix("_") not in known
    }


def _bound(
    method: Callable[..., Awaitable[Any]],
    hints: Mapping[str, Any],
    asked: type[BaseModel] | None,
    answer: object,
) -> RouteHandler:
    own = [] if asked is None else list(asked.model_fields)
    readers = {name: _reader(name, kind) for name, kind in hints.items() if name not in own}
    write = answer_writer(_object_of(answer) if isinstance(answer, Wrapped) else answer)

    async def handle(call: ApiCall) -> web.StreamResponse:
        query = call.query(asked) if asked is not None else None
        arguments = {name: getattr(query, name) for name in own}
        for name, read in readers.items():
            arguments[name] = await read(call)
        value = await method(**arguments)
        if isinstance(value, web.StreamResponse):
            return value
        if isinstance(answer, Wrapped):
            count = {"count": len(value)} if answer.is_counted else {}
            return call.answer(write({answer.name: value, **count}))
        is_plain = isinstance(value, dict) and not is_typeddict(answer)
        return call.answer(json_bytes(value) if is_plain else write(value))

    return handle


def _object_of(answer: Wrapped) -> object:
    count = {"count": int} if answer.is_counted else {}
    return TypedDict("Answer", {answer.name: answer.item, **count})  # type: ignore[operator]


def _reader(name: str, kind: type[Any]) -> Callable[[ApiCall], Awaitable[object]]:
    async def read(call: ApiCall) -> object:
        if name == "call":
            return call
        if name == "query":
            return call.query(kind)
        return await call.body(kind) if name == "body" else call.named(name.removesuffix("_"))

    return read
