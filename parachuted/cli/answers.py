"""Answers: what a module's command returned, as lines for a person. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

NOTHING = "(nothing)"
_INDENT = "  "
_EMPTY: tuple[object, ...] = (None, "", [], {})


def lines_of(answer: object) -> Iterator[str]:
    """The lines for any JSON value: a text as it is, a mapping as `key: value`, a list one after
    another. What is empty is left out of a mapping.
    """
    if answer is None:
        return
    if isinstance(answer, Mapping):
        yield from _fields(answer)
    elif isinstance(answer, list):
        yield from _items(answer) if answer else (NOTHING,)
    else:
        yield from _text(answer).split("\n")


def _fields(answer: Mapping[str, object]) -> Iterator[str]:
    for key, value in answer.items():
        name = key.replace("_", " ")
        if value in _EMPTY:
            continue
        lines = list(lines_of(value))
        if isinstance(value, Mapping | list) or len(lines) > 1:
            yield f"{name}:"
            yield from (f"{_INDENT}{line}".rstrip() for line in lines)
        else:
            yield f"{name}: {lines[0]}"


def _items(answer: list[object]) -> Iterator[str]:
    for number, item in enumerate(answer):
        if isinstance(item, Mapping | list) and number:
            yield ""
        yield from lines_of(item)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
