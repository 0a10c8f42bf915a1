"""Checks of what authors write, in words for them."""

from __future__ import annotations

import re

from pydantic import AfterValidator

NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
"""Of a module."""


def matching(pattern: re.Pattern[str], wanted: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{text[:80]!r} is not a {wanted}")
        return text

    return AfterValidator(check)
