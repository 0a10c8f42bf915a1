"""Binds a handler's arguments by parameter name, and checks them by annotation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from parachuted.errors import ModuleFailedError, ParachuteError
from parachuted.modules.registry.wording import told
from parachuted.modules.results import WrongResultError, to_json

Query: TypeAlias = Mapping[str, str | list[str]]

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
    """

    name: str
    adapter: TypeAdapter[Any]
    default: object
    is_list: bool


class HandlerArguments:
    """A handler's parameters. `takes_rest`: it has `**rest`, so that no name is unknown to it."""

    def __init__(self, parameters: tuple[Parameter, ...], *, takes_rest: bool) -> None:
        self.parameters, self.takes_rest = parameters, takes_rest
        self._names = {parameter.name for parameter in parameters}

    @property
    def names(self) -> frozenset[str]:
        """The parameters' names."""
        return frozenset(self._names)

    def bind(
        self, path: Mapping[str, str], query: Query, body: object = MISSING
    ) -> dict[str, object]:
        """The keyword arguments for a route or tool.

        Raises WrongArgumentsError with all mistakes. A name in the path comes only from there. All
        others may come from the query or the body, which is an object; a parameter named `body`
        gets all of it.
        """
        if not self.parameters and not path and not query and isinstance(body, dict) and not body:
            return {}
        call = _Call(self)
        sent = call.object_of(body)
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
                f"no agent can be told what to send: {str(error).splitlines()[0]}"
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
                for place, _, says in told(error)
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
    return HandlerArguments(tuple(parameters), takes_rest=takes_rest)


def _parameter(function: str, parameter: inspect.Parameter, hint: Any) -> Parameter:  # noqa: ANN401  an annotation may be anything
    default = MISSING if parameter.default is parameter.empty else parameter.default
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
