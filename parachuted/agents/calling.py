"""Calling: calls a tool for any backend, after checking its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from parachuted.agents.job import Tool, ToolResult
from parachuted.errors import ParachuteError
from parachuted.processes.heavy import load_heavy

ARGUMENT_CHARS = 500_000
ARGUMENT_DEPTH = 20
_SHOWN_CHARS = 200
_SHOWN_PROBLEMS = 3
_NAME = re.compile(r"[\w.:-]{1,128}")
CUT_SHORT = ToolResult(text="the call was cut short", is_error=True)


def recorded_as(name: str, result: ToolResult) -> tuple[str, str | None]:
    """The tool's name and the error, as a record without text has them: the name and the words of
    a result may hold a note's.
    """
    error = CUT_SHORT.text if result is CUT_SHORT else "it answered an error"
    return name if _NAME.fullmatch(name) else "(odd name)", error if result.is_error else None


async def call_tool(tools: Sequence[Tool], name: str, arguments: object) -> ToolResult:
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        names = ", ".join(tool.name for tool in tools)
        return ToolResult.refusal(
            f"there is no tool {name[:_SHOWN_CHARS]!r}; the tools are {names}"
        )
    if not isinstance(arguments, Mapping):
        return ToolResult.refusal(
            f"{tool.name} takes an object with named arguments, not {type(arguments).__name__}"
        )
    if (excess := find_excess(arguments)) is not None:
        return ToolResult.refusal(excess)
    jsonschema = await load_heavy("jsonschema")
    wrong = jsonschema.Draft202012Validator(dict(tool.schema)).iter_errors(dict(arguments))
    if problems := sorted(map(_sentence, wrong))[:_SHOWN_PROBLEMS]:
        return ToolResult.refusal(f"{tool.name}: {'; '.join(problems)}")
    try:
        return await tool.call(arguments)
    except ParachuteError as error:
        return ToolResult.refusal(error.message)


def find_excess(arguments: object) -> str | None:
    """Say whether there is too much, or too deep a nest; without recursion."""
    total = 0
    waiting: list[tuple[object, int]] = [(arguments, 0)]
    while waiting:
        value, depth = waiting.pop()
        total += len(value) if isinstance(value, str | Mapping | list | tuple) else 1
        if total > ARGUMENT_CHARS:
            return f"the arguments are longer than {ARGUMENT_CHARS:,} characters; nothing was done"
        if depth > ARGUMENT_DEPTH:
            return f"the arguments are nested deeper than {ARGUMENT_DEPTH} levels; nothing was done"
        if isinstance(value, Mapping):
            value = [*value.keys(), *value.values()]
        if isinstance(value, list | tuple):
            waiting.extend((part, depth + 1) for part in value)
    return None


def _sentence(error: Any) -> str:  # noqa: ANN401 - the library has no types
    """A message that quotes the whole of what was sent is cut."""
    where = ".".join(str(part) for part in error.absolute_path)
    says = error.message
    message = says if len(says) <= _SHOWN_CHARS else f"{says[:_SHOWN_CHARS]}…"
    return f"{where}: {message}" if where else str(message)
