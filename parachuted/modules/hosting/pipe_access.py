"""An access of a module over the pipe, such as `self.vault`: its annotations say how the arguments
and the result of each method are JSON, at both ends.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, cached_property
from typing import Any, Protocol, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticSerializationError
from pydantic_core import to_json as json_bytes

from parachuted.errors import ModuleFailedError
from parachuted.modules.results import to_json

_STRICT = ConfigDict(extra="forbid", strict=True, ser_json_bytes="base64", val_json_bytes="base64")


class PipeCaller(Protocol):
    """The pipe, as the services need it."""

    async def ask(self, verb: str, body: Mapping[str, object]) -> object:
        """Ask the daemon, and wait for its answer."""

    def ask_now(self, verb: str, body: Mapping[str, object]) -> object:
        """The same for synchronous code; it blocks the loop until the answer arrives."""


class PipeMethod:
    """One method, by its annotations; a parameter or result that is `object` is any JSON."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    @cached_property
    def _signature(self) -> inspect.Signature:
        signature = inspect.signature(self._function)
        return signature.replace(parameters=list(signature.parameters.values())[1:])  # no `self`

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._function, include_extras=True)

    @cached_property
    def _body(self) -> type[BaseModel]:
        fields: dict[str, Any] = {
            name: (self._hints[name], ... if one.default is one.empty else one.default)
            for name, one in self._signature.parameters.items()
        }
        return create_model(self._function.__name__, __config__=_STRICT, **fields)

    @cached_property
    def _result(self) -> TypeAdapter[Any]:
        return TypeAdapter(self._hints["return"])

    def dump_body(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Any:  # noqa: ANN401
        """The arguments as JSON. Raises TypeError, and WrongResultError for what JSON has not."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments: dict[str, Any] = {
            name: to_json(value) if _is_any(self._hints[name]) else value
            for name, value in bound.arguments.items()
        }
        body = self._body.model_construct(**arguments)
        try:
            return to_json(body.model_dump(mode="json", warnings=False))
        except PydanticSerializationError as error:
            raise TypeError(str(error)) from error

    def load_body(self, body: Mapping[str, object]) -> inspect.BoundArguments:
        """The arguments again. Raises ModuleFailedError: the process is not trusted."""
        try:
            asked = self._body.model_validate_json(json_bytes(body))
        except ValidationError as error:
            raise ModuleFailedError(
                f"the module's request is invalid: {error.errors(include_url=False)[0]['msg']}"
            ) from error
        return self._signature.bind(**dict(asked))

    def dump_result(self, result: object) -> object:
        """The result as JSON; bytes are a frame of their own."""
        if isinstance(result, bytes) or self._hints["return"] is object:
            return result if isinstance(result, bytes) else to_json(result)
        return to_json(self._result.dump_python(result, mode="json", warnings=False))

    def load_result(self, answer: object) -> Any:  # noqa: ANN401  what the annotation says
        """The result again. Raises ModuleFailedError."""
        try:
            return self._result.validate_python(answer)
        except ValidationError as error:
            raise ModuleFailedError(f"the daemon's answer is invalid: {error}") from error


@cache
def pipe_methods(access: type) -> Mapping[str, PipeMethod]:
    return {
        name: PipeMethod(function)
        for name, function in inspect.getmembers(access, inspect.isfunction)
        if not name.startswith("_")
    }


class PipeAccess:
    """An access in the module's process: each call asks the daemon, which holds the rights."""

    def __init__(self, access: type, room: str, caller: PipeCaller) -> None:
        self._room, self._caller = room, caller
        self._methods = pipe_methods(access)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_") or name not in self._methods:
            raise AttributeError(f"{self._room} has no method {name}")
        method = self._methods[name]

        async def call(*args: object, **kwargs: object) -> object:
            body = method.dump_body(args, kwargs)
            return method.load_result(await self._caller.ask(f"{self._room}.{name}", body))

        return call


def _is_any(hint: object) -> bool:
    return hint is object or any(_is_any(one) for one in get_args(hint))
