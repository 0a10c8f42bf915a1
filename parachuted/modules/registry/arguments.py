"""Binds a handler's arguments by parameter name, and checks them by annotation; the JSON schemas of
arguments and of the declared return type.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from functools import cache
from types import MappingProxyType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from parachuted.errors import ModuleFailedError, ParachuteError
from parachuted.modules.registry.wording import mistakes_in
from parachuted.modules.results import (
    BytesResponse,
    FileResponse,
    Response,
    WrongResultError,
    to_json,
)
from parachuted.modules.streams import Body, BodySource, Form, ServerEvent, Stream

Query: TypeAlias = Mapping[str, str | list[str]]

_Sent = TypeVar("_Sent")
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")
BodyKind: TypeAlias = Literal["json", "bytes", "form"]
_BODIES: Mapping[type, BodyKind] = MappingProxyType({Body: "bytes", Form: "form"})
_STREAMS = (AsyncGenerator, AsyncIterable, AsyncIterator)
_WHOLE_BODY = "body"
_WHOLE_DATA = "data"
_LISTS = (list, tuple, set, frozenset)
_MOST_PROBLEMS = 20
_USUAL = frozenset(
    {
        one
        for plain in (str, int, float, bool, dict, list, date, datetime)
        for one in (plain, plain | None)
    }
)


class _Absent(Enum):
    MISSING = "nothing was sent"


MISSING: Final = _Absent.MISSING


class WrongArgumentsError(ParachuteError):
    """The call does not fit the handler."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems[:_MOST_PROBLEMS]
        super().__init__("; ".join(self.problems))


class HandlerSignatureError(ModuleFailedError):
    """The handler's parameters cannot be filled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a handler.

    `default` is MISSING where one must be given; `is_list`: a query may name it more than once.
    `takes` another body than JSON: it is given that, and has no name that a caller sends.
    """

    name: str
    adapter: TypeAdapter[Any]
    default: object
    is_list: bool
    takes: BodyKind = "json"


class HandlerArguments:
    """A handler's parameters. `takes_rest`: it has `**rest`, so that no name is unknown to it."""

    def __init__(self, parameters: tuple[Parameter, ...], *, takes_rest: bool) -> None:
        self.parameters = tuple(one for one in parameters if one.takes == "json")
        self.takes_rest = takes_rest
        self._streamed = [one for one in parameters if one.takes != "json"]
        self._names = {parameter.name for parameter in self.parameters}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._names)

    @property
    def takes(self) -> BodyKind:
        return self._streamed[0].takes if self._streamed else "json"

    def bind(
        self,
        path: Mapping[str, str],
        query: Query,
        body: object = MISSING,
        *,
        tolerant: bool = False,
        source: BodySource | None = None,
    ) -> dict[str, object]:
        """The keyword arguments for a route or tool.

        Raises WrongArgumentsError with all mistakes. A name in the path comes only from there. All
        others may come from the query or the body, which is an object; a parameter named `body`
        gets all of it. `tolerant`: names may be in camelCase, and unknown ones are left out.
        `source` is a body that is not JSON.
        """
        if self._streamed:
            made = self._made(source)
            rest = HandlerArguments(self.parameters, takes_rest=self.takes_rest)
            return {**rest.bind(path, query, tolerant=tolerant), **made}
        if not self.parameters and not path and not query and isinstance(body, dict) and not body:
            return {}
        call = _Call(self)
        sent = call.object_of(body)
        if tolerant:
            query, sent = self._known(query, path), self._known(sent, path)
        for parameter in self.parameters:
            name = parameter.name
            if name in path:
                call.take(parameter, path[name])
            elif name in sent and name in query:
                call.problems.append(f"{name}: is in the query and in the body")
            elif name in sent:
                call.take(parameter, sent[name])
            elif name in query:
                call.take_text(parameter, query[name])
            elif name == _WHOLE_BODY and body is not MISSING:
                call.take(parameter, body)
            else:
                call.leave(parameter)
        call.take_rest(path, frozenset())
        call.take_rest(query, frozenset(path))
        call.take_rest({} if _WHOLE_BODY in self._names else sent, frozenset(path))
        return call.result()

    def _made(self, source: BodySource | None) -> dict[str, object]:
        name = self._streamed[0].name
        if source is None:
            raise WrongArgumentsError([f"{name}: is missing"])
        return {name: Body(source) if self.takes == "bytes" else Form(source)}

    def _known(self, sent: Mapping[str, _Sent], path: Mapping[str, str]) -> dict[str, _Sent]:
        """What was sent for parameters, by their names, and the rest where `**rest` takes it. A
        name in camelCase counts where its other form was not sent.
        """
        own = {name: name if name in self._names else _snake(name) for name in sent}
        known = [name for name in sent if own[name] in self._names.difference(path)]
        known.sort(key=lambda name: name == own[name])
        rest = {
            name: sent[name]
            for name in sent
            if self.takes_rest and name not in known and name not in path
        }
        return {own[name]: sent[name] for name in known} | rest

    def bind_data(self, data: Mapping[str, object]) -> dict[str, object]:
        """The keyword arguments for a listener or schedule, from the data.

        A parameter `data` gets all of it.
        """
        call = _Call(self)
        for parameter in self.parameters:
            if parameter.name in data:
                call.take(parameter, data[parameter.name])
            elif parameter.name == _WHOLE_DATA:
                call.take(parameter, dict(data))
            else:
                call.leave(parameter)
        if self.takes_rest:
            call.take_rest(data, frozenset())
        return call.result()

    def schema(self) -> dict[str, object]:
        """The JSON schema of the arguments, for agents. Raises HandlerSignatureError."""
        mode: Literal["validation"] = "validation"
        inputs = [(parameter.name, mode, parameter.adapter) for parameter in self.parameters]
        try:
            found, definitions = TypeAdapter.json_schemas(inputs)
        except PydanticUserError as error:
            raise HandlerSignatureError(
                f"its arguments cannot be described to agents: {str(error).splitlines()[0]}"
            ) from error
        properties: dict[str, object] = {}
        for parameter in self.parameters:
            properties[parameter.name] = {**found[(parameter.name, mode)], **_default(parameter)}
        required = [parameter.name for parameter in self.parameters if parameter.default is MISSING]
        schema: dict[str, object] = {
            "type": "object",
            "properties": properties,
            "additionalProperties": self.takes_rest,
        }
        return {**schema, **({"required": required} if required else {}), **definitions}


class _Call:
    """One call's arguments while they are gathered."""

    def __init__(self, arguments: HandlerArguments) -> None:
        self.problems: list[str] = []
        self._arguments, self._found = arguments, dict[str, object]()

    def object_of(self, body: object) -> Mapping[str, object]:
        if body is MISSING or (
            _WHOLE_BODY in self._arguments.names and not isinstance(body, Mapping)
        ):
            return {}
        if not isinstance(body, Mapping):
            self.problems.append("the body should be an object")
            return {}
        return body

    def take(self, parameter: Parameter, value: object) -> None:
        try:
            self._found[parameter.name] = parameter.adapter.validate_python(value)
        except ValidationError as error:
            self.problems += [
                f"{'.'.join(map(str, (parameter.name, *place)))}: {says}"
                for place, _, says in mistakes_in(error)
            ]

    def take_text(self, parameter: Parameter, value: str | list[str]) -> None:
        if parameter.is_list:
            self.take(parameter, [value] if isinstance(value, str) else value)
        elif isinstance(value, str):
            self.take(parameter, value)
        else:
            self.problems.append(f"{parameter.name}: is in the query more than once")

    def leave(self, parameter: Parameter) -> None:
        if parameter.default is MISSING:
            self.problems.append(f"{parameter.name}: is missing")

    def take_rest(self, sent: Mapping[str, object], reserved: frozenset[str]) -> None:
        names = self._arguments.names
        for name, value in sent.items():
            if name in names - reserved:
                continue
            if name not in reserved and self._arguments.takes_rest:
                self._found.setdefault(name, value)
            else:
                known = f" (known: {', '.join(sorted(names))})" if names else ""
                self.problems.append(f"{name[:80]}: is not known here{known}")

    def result(self) -> dict[str, object]:
        if self.problems:
            raise WrongArgumentsError(self.problems)
        return self._found


def _snake(name: str) -> str:
    return _HUMP.sub(lambda found: f"_{found[0].lower()}", name)


def plan(function: Callable[..., object]) -> HandlerArguments:
    """What the handler takes.

    A bound method is planned without its `self`. Raises HandlerSignatureError.
    """
    name = getattr(function, "__qualname__", repr(function))
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise HandlerSignatureError(f"{name}: an annotation cannot be read: {error}") from error
    parameters: list[Parameter] = []
    takes_rest = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_rest = True
        elif parameter.kind in {parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY}:
            raise HandlerSignatureError(
                f"{name}: {parameter.name} can only be given by position, and handlers are called "
                "by name"
            )
        else:
            parameters.append(_parameter(name, parameter, hints.get(parameter.name, Any)))
    streamed = [one.name for one in parameters if one.takes != "json"]
    if len(streamed) > 1:
        raise HandlerSignatureError(
            f"{name}: {' and '.join(streamed)} cannot both be given the body"
        )
    return HandlerArguments(tuple(parameters), takes_rest=takes_rest)


def _parameter(function: str, parameter: inspect.Parameter, hint: Any) -> Parameter:  # noqa: ANN401  an annotation may be anything
    default = MISSING if parameter.default is parameter.empty else parameter.default
    if hint in _BODIES:
        return Parameter(
            name=parameter.name,
            adapter=_usual_adapter(str),
            default=MISSING,
            is_list=False,
            takes=_BODIES[hint],
        )
    try:
        adapter = _adapter(hint | None if default is None and hint is not Any else hint)
    except (PydanticUserError, TypeError, NameError) as error:
        told_of = str(error).splitlines()[0]
        raise HandlerSignatureError(
            f"{function}: nothing of the type of {parameter.name} can be made from a call: "
            f"{told_of}"
        ) from error
    return Parameter(name=parameter.name, adapter=adapter, default=default, is_list=_is_list(hint))


def _adapter(hint: Any) -> TypeAdapter[Any]:  # noqa: ANN401  the same
    """Those of the usual types are made once, for a hundred modules have a thousand parameters; a
    module's own types go with it.
    """
    return (
        _usual_adapter(hint)
        if isinstance(hint, type | UnionType) and hint in _USUAL
        else TypeAdapter(hint)
    )


@cache
def _usual_adapter(hint: Any) -> TypeAdapter[Any]:  # noqa: ANN401  the same
    return TypeAdapter(hint)


def _is_list(hint: Any) -> bool:  # noqa: ANN401  the same
    if hint in _LISTS or get_origin(hint) in _LISTS:
        return True
    return any(_is_list(one) for one in get_args(hint)) if get_origin(hint) is not dict else False


def _default(parameter: Parameter) -> dict[str, object]:
    try:
        return (
            {}
            if parameter.default is MISSING or parameter.default is None
            else {"default": to_json(parameter.default)}
        )
    except WrongResultError:
        return {}


def returns_stream(function: Callable[..., object]) -> bool:
    return get_type_hints(function).get("return") is Stream


def schema_of_answer(function: Callable[..., object]) -> dict[str, object]:
    """The schema of what the function returns, of each item where it yields; empty if unknown.

    A `Response` beside other types is left out: its body may be anything.
    """
    hint: Any = get_type_hints(function, include_extras=True).get("return", Any)
    if get_origin(hint) in _STREAMS:
        hint = get_args(hint)[0]
    if get_origin(hint) in {Union, UnionType}:
        hint = Union[tuple(one for one in get_args(hint) if one is not Response)]  # noqa: UP007  of as many as there are
    if hint in {Any, Response, FileResponse, BytesResponse, Stream, ServerEvent, object}:
        return {}
    try:
        return TypeAdapter(hint).json_schema(mode="serialization", by_alias=False)
    except (PydanticUserError, TypeError, NameError, RecursionError):
        return {}
