"""Tool definitions: a function is a tool, its parameters are the schema of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, get_type_hints

from pydantic import BaseModel, create_model

Schema: TypeAlias = Mapping[str, object]
_Method = TypeVar("_Method", bound=Callable[..., Awaitable[Mapping[str, object]]])
_NOT_SENT = frozenset({"self", "call"})
_DEFINED = "__tool__"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """One tool. `takes` and `answers` are JSON schemas of objects; `module` and `capability` are
    the scope that an API key needs for it. `is_destructive`: it may take away or replace what is
    there; `is_idempotent`: a second equal call changes nothing more.
    """

    name: str
    description: str
    module: str
    capability: Literal["read", "write"]
    takes: Schema
    answers: Schema
    is_destructive: bool
    is_idempotent: bool
    arguments: type[BaseModel]
    function: Callable[..., Awaitable[Mapping[str, object]]]

    async def call(self, *owner: object, sent: Mapping[str, object]) -> Mapping[str, object]:
        """Call it with arguments that the schema has checked."""
        return await self.function(*owner, **dict(self.arguments.model_validate(sent)))


def tool(
    description: str,
    module: str,
    capability: Literal["read", "write"],
    answers: Schema,
    *,
    is_destructive: bool = False,
    is_idempotent: bool = False,
) -> Callable[[_Method], _Method]:
    """Make a method the tool of its name; `ToolDefinition` says what each argument means."""

    def define(method: _Method) -> _Method:
        hints = get_type_hints(method)
        fields: dict[str, Any] = {
            name: (hints[name], ... if sent.default is sent.empty else sent.default)
            for name, sent in inspect.signature(method).parameters.items()
            if name not in _NOT_SENT
        }
        arguments: type[BaseModel] = create_model(method.__name__, **fields)
        whole = arguments.model_json_schema()
        shapes = {name: _brief(shape) for name, shape in whole.get("properties", {}).items()}
        definition = ToolDefinition(
            name=method.__name__,
            description=description,
            module=module,
            capability=capability,
            takes=an_object(*whole.get("required", ()), **shapes),
            answers=answers,
            is_destructive=is_destructive,
            is_idempotent=is_idempotent,
            arguments=arguments,
            function=method,
        )
        setattr(method, _DEFINED, definition)
        return method

    return define


def tools_in(owner: type) -> tuple[ToolDefinition, ...]:
    """The tools among the methods of a class."""
    return tuple(
        getattr(member, _DEFINED) for member in vars(owner).values() if hasattr(member, _DEFINED)
    )


def _brief(shape: Mapping[str, Any]) -> Mapping[str, object]:
    """A definition is part of every prompt: what may be left out need not be null too, its default
    is the tool's matter, and a value that is listed needs no type.
    """
    kinds = [kind for kind in shape.get("anyOf", ()) if kind != {"type": "null"}]
    found = kinds[0] if kinds else shape
    key = "enum" if "enum" in found else "type"
    return {key: found[key]} if key in found else {}


def an_object(*required: str, **properties: object) -> Schema:
    """The schema of an object with these properties; a text names the type of one."""
    shapes = {
        name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()
    }
    return {
        "type": "object",
        "properties": shapes,
        **({"required": list(required)} if required else {}),
    }
