"""JavaScript regular expressions, matched in time linear in the text.

One engine checks the syntax; RE2, which never backtracks, matches. Otherwise the name of a note
could block the daemon.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import re2  # type: ignore[import-untyped]
import regress

_AHEAD = re.compile(r"\^\(\?([!=])")
_OTHERWISE = re.compile(
    r"\\[ACEGQZpPz]|\[\[:|\[\^?\]"
)  # what RE2 reads, and otherwise than JavaScript

Test = Callable[[str], bool]


def compile_expression(text: str) -> Test:
    """Whether a text holds what the expression means.

    Raises ValueError, with the reason, for one that cannot be matched.
    """
    try:
        regress.Regex(text)
    except regress.RegressError as error:
        raise ValueError(
            f"the matcher {text[:80]!r} is not a JavaScript regular expression ({error}), so it "
            "never matches"
        ) from error
    found = None if _OTHERWISE.search(text) else _compile(text)
    if found is None:
        raise ValueError(
            f"the matcher {text[:80]!r} needs what is not done here, so it never matches: "
            "look-around other than (?!...) and (?=...) right "
            "after a ^, back-references and \\u escapes; write it without"
        )
    return found


def _compile(text: str) -> Test | None:
    if (ahead := _AHEAD.match(text)) is None:
        expression = _linear(text)
        return (
            None
            if expression is None
            else lambda subject: expression.search(_encoded(subject)) is not None
        )
    for end in (place for place, sign in enumerate(text) if sign == ")"):
        condition, rest = _linear(f"^(?:{text[ahead.end() : end]})"), text[end + 1 :]
        if condition is not None and _linear(text[ahead.end() : end]) is not None:
            follows = None if _has_alternatives(rest) else _compile(f"^{rest}")
            wanted = ahead[1] == "="
            if follows is None:
                return None
            return lambda subject: (
                (condition.search(_encoded(subject)) is not None) is wanted and follows(subject)
            )
    return None


def _has_alternatives(text: str) -> bool:
    """Whether it is one thing or another as a whole, so that a ^ before it would belong to the
    first alone.
    """
    bars = (place for place, sign in enumerate(text) if sign == "|")
    return any(
        _compile(text[:bar]) is not None and _compile(text[bar + 1 :]) is not None for bar in bars
    )


def _linear(text: str) -> Any | None:  # noqa: ANN401  a compiled expression of RE2, which has no types
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text.encode("utf-8", "replace"), options)
    except re2.error:
        return None


def _encoded(subject: str) -> bytes:
    return subject.encode("utf-8", "replace")
