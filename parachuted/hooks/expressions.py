"""JavaScript regular expressions, matched in time linear in the text.

One engine checks the syntax; RE2, which never backtracks, matches. Otherwise the name of a note
could block the daemon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import re2  # type: ignore[import-untyped]
import regress

_FIRST_AHEAD = re.compile(r"\^\(\?([!=])")
_AHEAD = re.compile(r"\^?\(\?([!=])")
_REPEATED = ("*", "+", "?", "{")
_SIGNS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|[()|]", re.DOTALL)
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
    """RE2 knows no look-ahead, so those at the beginning are expressions of their own."""
    conditions: list[tuple[Any, bool]] = []
    rest = 0
    while ahead := (_AHEAD if rest else _FIRST_AHEAD).match(text, rest):
        end = next(place for place, sign in _outside_groups(text, ahead.end()) if sign == ")")
        condition = _linear(f"^(?:{text[ahead.end() : end]})")
        is_alternative = not rest and any(_outside_groups(text, end + 1))
        # the other side of a `|` would have no `^`, and a repeated condition may hold no times
        if condition is None or is_alternative or text.startswith(_REPEATED, end + 1):
            return None
        conditions.append((condition, ahead[1] == "="))
        rest = end + 1
    expression = _linear(f"^{text[rest:]}" if conditions else text)
    if expression is None:
        return None

    def test(subject: str) -> bool:
        data = _encoded(subject)
        return all(
            (condition.search(data) is not None) is wanted for condition, wanted in conditions
        ) and (expression.search(data) is not None)

    return test


def _outside_groups(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Where a `|` stands in no group that begins after `start`, or a `)` closes none of them."""
    depth = 0
    for found in _SIGNS.finditer(text, start):
        if not depth and found[0] in {"|", ")"}:
            yield found.start(), found[0]
        depth += (found[0] == "(") - (found[0] == ")")


def _linear(text: str) -> Any | None:  # noqa: ANN401  a compiled expression of RE2, which has no types
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text.encode("utf-8", "replace"), options)
    except re2.error:
        return None


def _encoded(subject: str) -> bytes:
    return subject.encode("utf-8", "replace")
