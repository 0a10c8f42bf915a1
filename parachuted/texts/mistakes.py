"""Mistakes: pydantic's words for what is wrong with a value."""

from __future__ import annotations

from pydantic import ValidationError

_PLAINLY = {
    "tuple_type": "Input should be a list",
    "frozen_set_type": "Input should be a list",
    "unexpected_keyword_argument": "Unknown field",
}


def mistakes_in(error: ValidationError, within: str = "") -> list[str]:
    """Each mistake behind the place of its field, which begins with `within`, without the submitted
    values.
    """
    found = []
    for mistake in error.errors(include_url=False, include_input=False, include_context=False):
        parts = [within, *(str(part)[:80] for part in mistake["loc"] if part != "[key]")]
        place, says = ".".join(filter(None, parts)), _PLAINLY.get(mistake["type"], mistake["msg"])
        says = says.removeprefix("Value error, ")
        found.append(f"{place}: {says}" if place else says)
    return found
