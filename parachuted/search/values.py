"""Values: how a text of the frontmatter is compared: as a number, a time or a text."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Literal, TypeAlias

ValueKind: TypeAlias = Literal["number", "moment", "text"]

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?(?:Z|[+-]\d{2}:?\d{2})?"
)


def number_of(text: str) -> float | None:
    """The number; None where it is none."""
    if not _NUMBER.fullmatch(text.strip()):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def moment_of(text: str) -> float | None:
    """The moment in seconds since 1970, in UTC where no zone is given; None where it is none."""
    if not _MOMENT.fullmatch(text.strip()):
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def measure(text: str) -> tuple[ValueKind, float]:
    """What the text counts as, and how much that is (0 for a text)."""
    if not text[:1] or text.lstrip()[:1] not in "+-.0123456789":
        return "text", 0.0
    if (number := number_of(text)) is not None:
        return "number", number
    if (moment := moment_of(text)) is not None:
        return "moment", moment
    return "text", 0.0
