"""Binds a handler's arguments by name, checks them with pydantic, and makes JSON schemas."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import UnionType
from typing import (
    Any,
    Final,
    Literal,
    NotRequired,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from typing_extensions import TypedDict

from parachuted.errors import ModuleFailedError, UnfitError
from parachuted.modules.results import (
    Body,
    BytesResponse,
    Response,
    ServerEvent,
    to_json,
)
from parachuted.texts.mistakes import mistakes_in

Query: TypeAlias = Mapping[str, str | list[str]]

_Sent = TypeVar("_Sent")
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")
_OPEN = {Response, BytesResponse, ServerEvent}
_STREAMS = (AsyncGenerator, AsyncIterable, AsyncIterator)
_LISTS = (list, tuple, set, frozenset)
_NO_TYPE = (PydanticUserError, TypeError, NameError, AttributeError, RecursionError)
_MOST_PROBLEMS = 20
_TYPED_DICT: Any = TypedDict  # of names that are known at run time only


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestParts:
    """What a request has besides its body of JSON. `tolerant`: names may be in camelCase, and
    unknown ones are left out. `source`: a body that is not JSON.
    """

    path: Mapping[str, str] = field(default_factory=dict)
    query: Query = field(default_factory=dict)
    tolerant: bool = False
    source: Body | None = None


NO_REQUEST: Final = RequestParts()


class HandlerArguments:
    """`names` are its parameters, but for `body_name`, which takes another body than JSON.
    `takes_rest`: it has `**rest`, so that no name is unknown to it.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        """Raises ModuleFailedError for parameters that cannot be filled."""
        self._hints: dict[str, Any] = {}
        self._defaults: dict[str, object] = {}
        self.takes_rest = False
        self.body_name: str | None = None
        try:
            annotations = get_type_hints(function, include_extras=True)
            for name, parameter in inspect.signature(function).parameters.items():
                hint, default = annotations.get(name, Any), parameter.default
                if parameter.kind is parameter.VAR_KEYWORD:
                    self.takes_rest = True
                elif hint is Body:
                    self.body_name = name
                else:
                    is_optional = default is None and hint is not Any
                    self._hints[name] = hint | None if is_optional else hint
                    if default is not parameter.empty:
                        self._defaults[name] = default
            fields = {
                name: NotRequired[hint] if name in self._defaults else hint
                for name, hint in self._hints.items()
            }
            arguments = _TYPED_DICT("Arguments", fields)
            extra: Literal["allow", "forbid"] = "allow" if self.takes_rest else "forbid"
            arguments.__pydantic_config__ = ConfigDict(extra=extra)
            self._adapter: TypeAdapter[dict[str, object]] = TypeAdapter(arguments)
        except _NO_TYPE as error:
            raise ModuleFailedError(
                f"a parameter has a type of which nothing can be made from a call: "
                f"{str(error).splitlines()[0]}"
            ) from error
        self.names = self._hints.keys()

    def bind(
        self, body: Mapping[str, object], request: RequestParts = NO_REQUEST
    ) -> dict[str, object]:
        """The keyword arguments for a route or tool. Raises UnfitError with all mistakes.

        Each name is in the path, the query or the body, in this order; a parameter named `body`
        gets all of it.
        """
        path, query = request.path, request.query
        sent = body if self.body_name is None else {}
        if "body" in self._hints:
            sent = {"body": body} | {name: body[name] for name in body if name in self._hints}
        if request.tolerant:
            query, sent = self._known(query), self._known(sent)
        queried = {
            name: [text] if isinstance(text, str) and _is_list(self._hints.get(name)) else text
            for name, text in query.items()
        }
        found = self._checked({**sent, **queried, **path})
        if self.body_name is not None:
            if request.source is None:
                raise UnfitError(f"{self.body_name}: Field required")
            found[self.body_name] = request.source
        return found

    def bind_data(self, data: Mapping[str, object]) -> dict[str, object]:
        """The same for a listener or schedule, where `data` gets all of it. Raises UnfitError."""
        values = {name: data[name] for name in data if self.takes_rest or name in self._hints}
        if "data" in self._hints:
            values.setdefault("data", dict(data))
        return self._checked(values)

    def _checked(self, values: Mapping[str, object]) -> dict[str, object]:
        try:
            return self._adapter.validate_python(values)
        except ValidationError as error:
            raise UnfitError("; ".join(mistakes_in(error)[:_MOST_PROBLEMS])) from error

    def _known(self, sent: Mapping[str, _Sent]) -> dict[str, _Sent]:
        """What was sent for parameters, by their names, and the rest where `**rest` takes it. A
        name in camelCase counts where its other form was not sent.
        """
        found: dict[str, _Sent] = {}
        for name, value in sent.items():
            own = name if name in self._hints else _HUMP.sub(r"_\g<0>", name).lower()
            if own == name or own not in sent:
                if own in self._hints:
                    found[own] = value
                elif self.takes_rest:
                    found[name] = value
        return found

    def schema(self) -> dict[str, object]:
        """Raises ModuleFailedError."""
        try:
            schema = self._adapter.json_schema()
        except PydanticUserError as error:
            raise ModuleFailedError(
                f"its arguments cannot be described to agents: {str(error).splitlines()[0]}"
            ) from error
        del schema["title"]
        for name, shape in schema["properties"].items():
            shape.pop("title", None)
            if self._defaults.get(name) is not None:
                with suppress(ModuleFailedError):  # it has no form in JSON
                    shape["default"] = to_json(self._defaults[name])
        return schema


def _is_list(hint: Any) -> bool:  # noqa: ANN401  an annotation may be anything
    if hint in _LISTS or get_origin(hint) in _LISTS:
        return True
    return get_origin(hint) is not dict and any(_is_list(inner) for inner in get_args(hint))


def schema_of_answer(function: Callable[..., object]) -> dict[str, object]:
    """The schema of what it returns, or of each item that it yields; empty if unknown. A `Response`
    beside other types is left out: its body may be anything.
    """
    hint: Any = get_type_hints(function, include_extras=True).get("return", Any)
    if get_origin(hint) in _STREAMS:
        hint = get_args(hint)[0]
    if get_origin(hint) in {Union, UnionType}:
        hint = Union[tuple(part for part in get_args(hint) if part is not Response)]  # noqa: UP007  of as many as there are
    if hint in _OPEN:
        return {}
    try:
        return TypeAdapter(hint).json_schema(mode="serialization", by_alias=False)
    except _NO_TYPE:
        return {}
