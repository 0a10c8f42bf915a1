"""Validation errors in plain words, without the submitted values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from pydantic import ValidationError

Place: TypeAlias = tuple[str | int, ...]

_SAYINGS = {
    "missing": "is missing",
    "tuple_type": "should be a list",
    "list_type": "should be a list",
    "set_type": "should be a list",
    "string_type": "should be a text",
    "dataclass_type": "should be a mapping",
    "model_type": "should be a mapping",
    "mapping_type": "should be a mapping",
    "dict_type": "should be a mapping",
    "bool_parsing": "should be true or false",
    "bool_type": "should be true or false",
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "int_type": "should be a whole number",
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "none_required": "should be left out, or null",
    "unexpected_keyword_argument": "is not known here",
    "extra_forbidden": "is not known here",
}


def mistakes_in(error: ValidationError) -> Iterator[tuple[Place, str, str]]:
    """Each mistake: where it is, pydantic's name for its kind, and what to say."""
    for one in error.errors(include_url=False, include_input=False):
        place = tuple(part for part in one["loc"] if part != "[key]")
        yield place, one["type"], _sentence(one["type"], one["msg"], one.get("ctx", {}))


def _sentence(kind: str, says: str, context: Mapping[str, object]) -> str:
    if kind in {"literal_error", "enum"}:
        return (
            "should be one of "
            f"{str(context.get('expected', '')).replace(' or ', ', ').replace(chr(39), '')}"
        )
    found = _SAYINGS.get(kind) or says.removeprefix("Value error, ").removeprefix("Input ")
    return found[:1].lower() + found[1:]
