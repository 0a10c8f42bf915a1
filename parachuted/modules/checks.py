"""Checks of what authors, people and callers write, and pydantic's words for what is wrong."""

from __future__ import annotations

import re

from pydantic import AfterValidator, ValidationError


def matching(pattern: re.Pattern[str], wanted: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{text[:80]!r} is not a {wanted}")
        return text

    return AfterValidator(check)


def mistakes_in(error: ValidationError, within: str = "") -> list[str]:
    """Each mistake behind the place of its field, which begins with `within`, without the submitted
    values.
    """
    found = []
    for mistake in error.errors(include_url=False, include_input=False, include_context=False):
        parts = [within, *(str(part)[:80] for part in mistake["loc"] if part != "[key]")]
        place, says = ".".join(filter(None, parts)), mistake["msg"].removeprefix("Value error, ")
        found.append(f"{place}: {says}" if place else says)
    return found
