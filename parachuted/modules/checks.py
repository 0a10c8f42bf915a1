"""Checks of what authors, people and callers write, and what is wrong with it in plain words."""

from __future__ import annotations

import re

from pydantic import AfterValidator, ValidationError

_WORDS = {
    **dict.fromkeys(("tuple_type", "list_type", "set_type"), "should be a list"),
    **dict.fromkeys(
        ("dataclass_type", "model_type", "mapping_type", "dict_type"), "should be a mapping"
    ),
    **dict.fromkeys(("bool_parsing", "bool_type"), "should be true or false"),
    **dict.fromkeys(("int_parsing", "int_from_float", "int_type"), "should be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "should be a number"),
    **dict.fromkeys(("unexpected_keyword_argument", "extra_forbidden"), "is not known here"),
    "missing": "is missing",
    "string_type": "should be a text",
    "none_required": "should be left out, or null",
}


def matching(pattern: re.Pattern[str], wanted: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{text[:80]!r} is not a {wanted}")
        return text

    return AfterValidator(check)


def mistakes_in(error: ValidationError) -> list[tuple[str, str]]:
    """Where each mistake is, dotted, and what to do, without the submitted values."""
    found: list[tuple[str, str]] = []
    for mistake in error.errors(include_url=False, include_input=False):
        kind, says = mistake["type"], mistake["msg"]
        if kind in {"literal_error", "enum"}:
            expected = str(mistake.get("ctx", {}).get("expected", ""))
            says = f"should be one of {expected.replace(' or ', ', ').replace(chr(39), '')}"
        says = _WORDS.get(kind) or says.removeprefix("Value error, ").removeprefix("Input ")
        where = ".".join(str(part)[:80] for part in mistake["loc"] if part != "[key]")
        found.append((where, says[:1].lower() + says[1:]))
    return found
