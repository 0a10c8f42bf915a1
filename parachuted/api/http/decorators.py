"""Decorators: they make a method the handler of a route."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import Any, TypedDict, TypeVar, Unpack

from aiohttp import web
from pydantic import BaseModel

from parachuted.api.http.answers import json_answer
from parachuted.api.http.route import ApiCall, MediaBody, Reach, Route, RouteHandler
from parachuted.keys import Capability

_Handler = TypeVar("_Handler", bound=Callable[..., Awaitable[object]])


_DECLARED = "__routes__"


class RouteOptions(TypedDict, total=False):
    """What few routes need; `Route` explains each.

    `query` and `body`: models that the handler itself passes to `ApiCall`. `answers`: for handlers
    that return an aiohttp response.
    """

    query: type[BaseModel]
    body: type[BaseModel]
    answers: Mapping[int, object]
    names: Mapping[str, str]
    headers: Mapping[str, str]
    uploads: MediaBody
    errors: tuple[int, ...]
    largest_body: int
    has_head: bool


@dataclass(frozen=True, slots=True)
class _Method:
    name: str

    def __call__(
        self,
        path: str,
        module: str,
        capability: Capability | None,
        *,
        reach: Reach,
        **options: Unpack[RouteOptions],
    ) -> Callable[[_Handler], _Handler]:
        """Make a method the handler of that path.

        The first paragraph of its docstring is the summary. It may take `call`; `query` and `body`,
        checked as the models they are annotated with; and values in the path by their names (`id_`
        for `id`). What it returns is sent as JSON of the annotated type, unless it is an aiohttp
        response.
        """

        def declare(handler: _Handler) -> _Handler:
            def bind(owner: object) -> Route:
                hints = inspect.get_annotations(handler, eval_str=True)
                answer = hints.pop("return")
                # `issubclass` asks a mapping's abstract class, whose answer takes milliseconds.
                is_response = web.StreamResponse in getattr(answer, "__mro__", ())
                declared: dict[str, Any] = {} if is_response else {"answers": {200: answer}}
                declared |= {name: hints[name] for name in ("query", "body") if name in hints}
                declared |= options
                return Route(
                    method=self.name,
                    path=path,
                    module=module,
                    capability=capability,
                    reach=reach,
                    summary=_summary(handler),
                    handle=_bound(MethodType(handler, owner), hints, is_response=is_response),
                    **declared,
                )

            setattr(handler, _DECLARED, [bind, *getattr(handler, _DECLARED, ())])
            return handler

        return declare


get, post, put, patch, delete = map(_Method, ("GET", "POST", "PUT", "PATCH", "DELETE"))


def routes_of(*owners: object) -> list[Route]:
    return [
        bind(owner)
        for owner in owners
        for member in vars(type(owner)).values()
        for bind in getattr(member, _DECLARED, ())
    ]


def _summary(handler: Callable[..., object]) -> str:
    return " ".join((handler.__doc__ or "").partition("\n\n")[0].split())


def _bound(
    method: Callable[..., Awaitable[Any]], hints: Mapping[str, Any], *, is_response: bool
) -> RouteHandler:
    if is_response and [*hints] == ["call"]:
        return method
    readers = [_reader(name, kind) for name, kind in hints.items()]

    async def handle(call: ApiCall) -> web.StreamResponse:
        answer = await method(*[await read(call) for read in readers])
        return answer if is_response else json_answer(answer)

    return handle


def _reader(name: str, kind: type[Any]) -> Callable[[ApiCall], Awaitable[object]]:
    """How the argument of that name is read from a call."""

    async def read(call: ApiCall) -> object:
        if name == "call":
            return call
        if name == "query":
            return call.query(kind)
        return await call.body(kind) if name == "body" else call.named(name.removesuffix("_"))

    return read
