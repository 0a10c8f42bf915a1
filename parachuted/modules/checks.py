"""Checks of what authors write, in words for them."""

from __future__ import annotations

import re

from pydantic import AfterValidator


def matching(pattern: re.Pattern[str], wanted: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{text[:80]!r} is not a {wanted}")
        return text

    return AfterValidator(check)
