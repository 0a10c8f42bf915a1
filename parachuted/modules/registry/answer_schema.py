"""The JSON schema of a handler's declared return type."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from parachuted.modules.results import Response

_STREAMS = (AsyncGenerator, AsyncIterable, AsyncIterator)


def schema_of_answer(function: Callable[..., object]) -> dict[str, object]:
    """The schema of what the function returns, of each item where it yields; empty if unknown.

    A `Response` beside other types is left out: its body may be anything.
    """
    hint: Any = get_type_hints(function, include_extras=True).get("return", Any)
    if get_origin(hint) in _STREAMS:
        hint = get_args(hint)[0]
    if get_origin(hint) in {Union, UnionType}:
        hint = Union[tuple(one for one in get_args(hint) if one is not Response)]  # noqa: UP007  of as many as there are
    if hint in {Any, Response, object}:
        return {}
    try:
        return TypeAdapter(hint).json_schema(mode="serialization", by_alias=False)
    except (PydanticUserError, TypeError, NameError, RecursionError):
        return {}
