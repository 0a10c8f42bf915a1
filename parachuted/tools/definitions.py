"""Tool definitions: a method is a tool, its parameters are the schema of its arguments."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar, get_type_hints

from pydantic import BaseModel, ValidationError, create_model

from parachuted.agents.job import Tool, ToolResult
from parachuted.errors import ConflictError, EditRefusedError, ParachuteError

Schema: TypeAlias = Mapping[str, object]
Answer: TypeAlias = Mapping[str, object] | str
_Method = TypeVar("_Method", bound=Callable[..., Awaitable[Answer]])
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff\ud800-\udfff]")
_NOT_SENT = frozenset({"self", "call"})
_DEFINED = "__tool__"
_UNNEEDED = {"title", "default", "minLength", "maxLength", "minimum", "maximum", "pattern"}
_ANYTHING: tuple[object, ...] = ({}, True)  # what a schema of any value is


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDescription:
    """`takes` is a JSON schema; `module` and `capability` are the scope that an API key needs.
    `for_path_keys`: a key with paths may call it, and it reaches no more than those.
    """

    name: str
    description: str
    module: str
    capability: Literal["read", "write"]
    takes: Schema
    for_path_keys: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition(ToolDescription):
    arguments: type[BaseModel]
    function: Callable[..., Awaitable[Answer]]

    async def call(self, *owner: object, sent: Mapping[str, object]) -> Answer:
        """With arguments that the schema has checked. Raises EditRefusedError."""
        try:
            arguments = self.arguments.model_validate(sent)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise EditRefusedError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        return await self.function(*owner, **dict(arguments))


def tool(
    description: str,
    module: str,
    capability: Literal["read", "write"] = "write",
    *,
    for_path_keys: bool = False,
) -> Callable[[_Method], _Method]:
    """Make a method the tool of its name; `ToolDescription` says what each argument means."""

    def define(method: _Method) -> _Method:
        hints = get_type_hints(method)
        fields: dict[str, Any] = {
            name: (hints[name], ... if sent.default is sent.empty else sent.default)
            for name, sent in inspect.signature(method).parameters.items()
            if name not in _NOT_SENT
        }
        arguments: type[BaseModel] = create_model(method.__name__, **fields)
        whole = arguments.model_json_schema()
        shapes = {name: brief(shape) for name, shape in whole.get("properties", {}).items()}
        definition = ToolDefinition(
            name=method.__name__,
            description=description,
            module=module,
            capability=capability,
            takes=an_object(*whole.get("required", ()), **shapes),
            for_path_keys=for_path_keys,
            arguments=arguments,
            function=method,
        )
        setattr(method, _DEFINED, definition)
        return method

    return define


def tools_in(owner: type) -> tuple[ToolDefinition, ...]:
    return tuple(
        getattr(member, _DEFINED) for member in vars(owner).values() if hasattr(member, _DEFINED)
    )


def brief(shape: object) -> object:
    """The schema of an argument as a model needs it, since it is part of every prompt: without what
    the tool itself sees to, such as defaults, limits and null.
    """
    if not isinstance(shape, Mapping):
        return shape
    kept = {
        name: value
        for name, value in shape.items()
        if name not in _UNNEEDED
        and not (name in {"items", "additionalProperties"} and value in _ANYTHING)
        and not (name == "type" and "enum" in shape)
    }
    ways = [brief(one) for one in kept.pop("anyOf", ()) if one != {"type": "null"}]
    if len(ways) == 1 and isinstance(ways[0], Mapping):
        return {**kept, **ways[0]}
    return {**kept, "anyOf": ways} if ways else kept


def agent_tools(owner: object, definitions: Iterable[ToolDefinition]) -> tuple[Tool, ...]:
    """As an agent in this process has them."""

    async def call(definition: ToolDefinition, sent: Mapping[str, object]) -> ToolResult:
        try:
            answer = await definition.call(owner, sent=sent)
        except ParachuteError as error:
            return refused(error)
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return ToolResult(text=text)

    return tuple(
        Tool(
            name=definition.name,
            description=definition.description,
            schema={**definition.takes, "additionalProperties": False},
            call=partial(call, definition),
            server=definition.module,
        )
        for definition in definitions
    )


def refused(error: ParachuteError) -> ToolResult:
    """In words for a model."""
    if isinstance(error, ConflictError):
        return ToolResult.refusal(f"{error.message}; read the note again, then decide again")
    return ToolResult.of_error(error)


def plain(text: str) -> str:
    """Raises EditRefusedError where the text holds a character that is none."""
    match = UNPRINTABLE.search(text.replace("\r\n", "\n"))
    if match is not None:
        raise EditRefusedError(f"{match[0]!r} at position {match.start()} is not text")
    return text


def an_object(*required: str, **properties: object) -> Schema:
    """The schema of an object with these properties; a text names the type of one."""
    shapes = {
        name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()
    }
    schema = {"type": "object", "properties": shapes}
    return {**schema, "required": list(required)} if required else schema
