"""Calls a tool for any backend, after checking its arguments.

What an agent sends is data: an unknown name, a wrong type or 10 MB of content is answered with a
sentence and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parachuted.agents.job import Tool, ToolResult
from parachuted.errors import ParachuteError
from parachuted.heavy import load_heavy

ARGUMENT_CHARS = 500_000
ARGUMENT_DEPTH = 20
_SHOWN_CHARS = 200
_SHOWN_PROBLEMS = 3


async def call_tool(tools: Sequence[Tool], name: str, arguments: object) -> ToolResult:
    """Call the tool of that name with checked arguments; whatever is wrong with them comes back as
    an error result.
    """
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        return _refuse(
            f"there is no tool {name[:_SHOWN_CHARS]!r}; the tools are "
            f"{', '.join(tool.name for tool in tools)}"
        )
    if not isinstance(arguments, Mapping):
        return _refuse(
            f"{tool.name} takes an object with named arguments, not {type(arguments).__name__}"
        )
    excess = find_excess(arguments)
    if excess is not None:
        return _refuse(excess)
    problem = await _find_problem(tool.schema, arguments)
    if problem is not None:
        return _refuse(f"{tool.name}: {problem}")
    try:
        return await tool.call(arguments)
    except ParachuteError as error:
        return _refuse(error.message)


def find_excess(arguments: object) -> str | None:
    """Say whether there is too much, or too deep a nest; no recursion, since the depth is the
    sender's choice.
    """
    total = 0
    waiting: list[tuple[object, int]] = [(arguments, 0)]
    while waiting:
        value, depth = waiting.pop()
        total += len(value) if isinstance(value, str | Mapping | list | tuple) else 1
        if total > ARGUMENT_CHARS:
            return f"the arguments are longer than {ARGUMENT_CHARS:,} characters; nothing was done"
        if depth > ARGUMENT_DEPTH:
            return f"the arguments are nested deeper than {ARGUMENT_DEPTH} levels; nothing was done"
        parts = (
            [*value.keys(), *value.values()]
            if isinstance(value, Mapping)
            else value
            if isinstance(value, list | tuple)
            else ()
        )
        waiting.extend((part, depth + 1) for part in parts)
    return None


def _refuse(reason: str) -> ToolResult:
    return ToolResult(text=reason, is_error=True)


async def _find_problem(
    schema: Mapping[str, object], arguments: Mapping[str, object]
) -> str | None:
    jsonschema = await load_heavy("jsonschema")
    errors = jsonschema.Draft202012Validator(dict(schema)).iter_errors(dict(arguments))
    return "; ".join(sorted(map(_sentence, errors))[:_SHOWN_PROBLEMS]) or None


def _sentence(error: Any) -> str:  # noqa: ANN401 - the library has no types
    """Tell of one error; a message that quotes the whole of what was sent is cut."""
    where = ".".join(str(part) for part in error.absolute_path)
    message = (
        error.message if len(error.message) <= _SHOWN_CHARS else f"{error.message[:_SHOWN_CHARS]}…"
    )
    return f"{where}: {message}" if where else str(message)
