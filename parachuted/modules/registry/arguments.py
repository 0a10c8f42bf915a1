"""Binds a handler's arguments by parameter name, and checks them by annotation with pydantic; the
JSON schemas of arguments and of the declared return type.
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
from parachuted.modules.checks import mistakes_in
from parachuted.modules.results import (
    BytesResponse,
    FileResponse,
    Response,
    WrongResultError,
    to_json,
)
from parachuted.modules.streams import Body, BodySource, Form, ServerEvent, Stream

Query: TypeAlias = Mapping[str, str | list[str]]
BodyKind: TypeAlias = Literal["json", "bytes", "form"]

_Sent = TypeVar("_Sent")
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")
_BODIES: Mapping[type, BodyKind] = MappingProxyType({Body: "bytes", Form: "form"})
_STREAMS = (AsyncGenerator, AsyncIterable, AsyncIterator)
_LISTS = (list, tuple, set, frozenset)
_MOST_PROBLEMS = 20
_PLAIN = (str, int, float, bool, dict, list, date, datetime)
_USUAL = frozenset({*_PLAIN, *(plain | None for plain in _PLAIN)})


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
    """

    name: str
    adapter: TypeAdapter[Any]
    default: object
    is_list: bool

    def take(self, value: object, found: dict[str, object]) -> list[str]:
        """Add the checked value to what was found; MISSING: none was sent. What is wrong."""
        if value is MISSING:
            return [f"{self.name}: is missing"] if self.default is MISSING else []
        try:
            found[self.name] = self.adapter.validate_python(value)
        except ValidationError as error:
            return [
                f"{'.'.join(filter(None, (self.name, where)))}: {says}"
                for where, says in mistakes_in(error)
            ]
        return []

    def take_text(self, value: str | list[str], found: dict[str, object]) -> list[str]:
        """The same of a query."""
        if self.is_list:
            return self.take([value] if isinstance(value, str) else value, found)
        if isinstance(value, str):
            return self.take(value, found)
        return [f"{self.name}: is in the query more than once"]


class HandlerArguments:
    """A handler's parameters. `body`: the one that takes another body than JSON, and its kind.
    `takes_rest`: it has `**rest`, so that no name is unknown to it.
    """

    def __init__(
        self, parameters: Mapping[str, Parameter], body: tuple[str, BodyKind] | None, *, rest: bool
    ) -> None:
        self._parameters, self._body, self.takes_rest = parameters, body, rest

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._parameters)

    @property
    def takes(self) -> BodyKind:
        return self._body[1] if self._body else "json"

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
        if self._body and source is None:
            raise WrongArgumentsError([f"{self._body[0]}: is missing"])
        takes_whole = "body" in self._parameters
        sent: Mapping[str, object] = body if isinstance(body, Mapping) and not self._body else {}
        found, problems = dict[str, object](), list[str]()
        if not (takes_whole or self._body or body is MISSING or isinstance(body, Mapping)):
            problems.append("the body should be an object")
        if tolerant:
            query, sent = self._known(query, path), self._known(sent, path)
        for name, parameter in self._parameters.items():
            if name in path:
                problems += parameter.take(path[name], found)
            elif name in query and name in sent:
                problems.append(f"{name}: is in the query and in the body")
            elif name in query:
                problems += parameter.take_text(query[name], found)
            else:
                whole = body if name == "body" else MISSING
                problems += parameter.take(sent.get(name, whole), found)
        problems += self._take_rest(path, {}, found)
        problems += self._take_rest(query, path, found)
        problems += self._take_rest({} if takes_whole else sent, path, found)
        if problems:
            raise WrongArgumentsError(problems)
        if self._body and source is not None:
            found[self._body[0]] = Body(source) if self.takes == "bytes" else Form(source)
        return found

    def _take_rest(
        self, sent: Mapping[str, object], path: Mapping[str, str], found: dict[str, object]
    ) -> list[str]:
        unknown = {
            name: value
            for name, value in sent.items()
            if name in path or name not in self._parameters
        }
        known = f" (known: {', '.join(sorted(self._parameters))})" if self._parameters else ""
        if self.takes_rest and not unknown.keys() & path.keys():
            found |= {name: value for name, value in unknown.items() if name not in found}
            return []
        return [f"{name[:80]}: is not known here{known}" for name in unknown]

    def bind_data(self, data: Mapping[str, object]) -> dict[str, object]:
        """The keyword arguments for a listener or schedule, from the data; a parameter `data` gets
        all of it. Raises WrongArgumentsError.
        """
        found, problems = dict[str, object](), list[str]()
        for name, parameter in self._parameters.items():
            whole = dict(data) if name == "data" else MISSING
            problems += parameter.take(data.get(name, whole), found)
        if problems:
            raise WrongArgumentsError(problems)
        rest = data.keys() - self._parameters.keys() if self.takes_rest else ()
        return found | {name: data[name] for name in data if name in rest}

    def _known(self, sent: Mapping[str, _Sent], path: Mapping[str, str]) -> dict[str, _Sent]:
        """What was sent for parameters, by their names, and the rest where `**rest` takes it. A
        name in camelCase counts where its other form was not sent.
        """
        found: dict[str, _Sent] = {}
        for name, value in sent.items():
            own = name if name in self._parameters else _snake(name)
            if own in self._parameters and own not in path:
                if own == name or own not in sent:
                    found[own] = value
            elif self.takes_rest and name not in path:
                found[name] = value
        return found

    def schema(self) -> dict[str, object]:
        """The JSON schema of the arguments, for agents. Raises HandlerSignatureError."""
        mode: Literal["validation"] = "validation"
        parameters = self._parameters.values()
        try:
            found, definitions = TypeAdapter.json_schemas(
                [(parameter.name, mode, parameter.adapter) for parameter in parameters]
            )
        except PydanticUserError as error:
            raise HandlerSignatureError(
                f"its arguments cannot be described to agents: {str(error).splitlines()[0]}"
            ) from error
        schema: dict[str, object] = {
            "type": "object",
            "properties": {
                parameter.name: {**found[(parameter.name, mode)], **_default(parameter)}
                for parameter in parameters
            },
            "additionalProperties": self.takes_rest,
        }
        required = [parameter.name for parameter in parameters if parameter.default is MISSING]
        return {**schema, **({"required": required} if required else {}), **definitions}


def _snake(name: str) -> str:
    return _HUMP.sub(lambda found: f"_{found[0].lower()}", name)


def plan(function: Callable[..., object]) -> HandlerArguments:
    """What the handler takes; a bound method is planned without its `self`.

    Raises HandlerSignatureError.
    """
    name = getattr(function, "__qualname__", repr(function))
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise HandlerSignatureError(f"{name}: an annotation cannot be read: {error}") from error
    parameters, bodies, takes_rest = dict[str, Parameter](), list[tuple[str, BodyKind]](), False
    for parameter in inspect.signature(function).parameters.values():
        hint: Any = hints.get(parameter.name, Any)
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_rest = True
        elif parameter.kind in {parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY}:
            raise HandlerSignatureError(
                f"{name}: {parameter.name} can only be given by position, and handlers are called "
                "by name"
            )
        elif hint in _BODIES:
            bodies.append((parameter.name, _BODIES[hint]))
        else:
            parameters[parameter.name] = _parameter(name, parameter, hint)
    if len(bodies) > 1:
        raise HandlerSignatureError(
            f"{name}: {' and '.join(body for body, _ in bodies)} cannot both be given the body"
        )
    return HandlerArguments(parameters, bodies[0] if bodies else None, rest=takes_rest)


def _parameter(function: str, parameter: inspect.Parameter, hint: Any) -> Parameter:  # noqa: ANN401  an annotation may be anything
    default = MISSING if parameter.default is parameter.empty else parameter.default
    wanted = hint | None if default is None and hint is not Any else hint
    is_usual = isinstance(wanted, type | UnionType) and wanted in _USUAL
    try:
        adapter = _usual_adapter(wanted) if is_usual else TypeAdapter(wanted)
    except (PydanticUserError, TypeError, NameError) as error:
        raise HandlerSignatureError(
            f"{function}: nothing of the type of {parameter.name} can be made from a call: "
            f"{str(error).splitlines()[0]}"
        ) from error
    return Parameter(name=parameter.name, adapter=adapter, default=default, is_list=_is_list(hint))


@cache
def _usual_adapter(hint: Any) -> TypeAdapter[Any]:  # noqa: ANN401  the same
    """Made once, for a hundred modules have a thousand parameters; a module's own types go with
    it.
    """
    return TypeAdapter(hint)


def _is_list(hint: Any) -> bool:  # noqa: ANN401  the same
    if hint in _LISTS or get_origin(hint) in _LISTS:
        return True
    return get_origin(hint) is not dict and any(_is_list(inner) for inner in get_args(hint))


def _default(parameter: Parameter) -> dict[str, object]:
    if parameter.default is MISSING or parameter.default is None:
        return {}
    try:
        return {"default": to_json(parameter.default)}
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
        hint = Union[tuple(part for part in get_args(hint) if part is not Response)]  # noqa: UP007  of as many as there are
    if hint in {Any, Response, FileResponse, BytesResponse, Stream, ServerEvent, object}:
        return {}
    try:
        return TypeAdapter(hint).json_schema(mode="serialization", by_alias=False)
    except (PydanticUserError, TypeError, NameError, RecursionError):
        return {}
