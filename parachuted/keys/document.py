"""Document: YAML as plain texts, lists and mappings, within fixed limits.

Only the stream of events is read, so nothing becomes an object, no alias is followed, and a date
stays the text it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import yaml

KeyFileValue: TypeAlias = "str | list[KeyFileValue] | dict[str, KeyFileValue] | None"

_MAX_DEPTH = 8
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})


def read_document(text: str) -> KeyFileValue:
    """What the text says.

    Raises ValueError, in words, for what is malformed, cut off, too deep, ambiguous, or more than
    one document.

    Cut off in the right place, a text would limit a key to no paths. So one with the mark of a
    beginning needs that of an end.
    """
    if not text.endswith("\n") or (text.startswith("---") and not text.rstrip().endswith("\n...")):
        raise ValueError(
            "it is cut off: its last line has no end"
            if not text.endswith("\n")
            else "it is cut off: no `...` ends it"
        )
    try:
        events = list(_checked(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ValueError(
            "it is not YAML: "
            f"{error.problem or error.context}{f' (line {mark.line + 1})' if mark else ''}"
        ) from error
    except yaml.YAMLError as error:
        raise ValueError(f"it is not YAML: {str(error).splitlines()[0]}") from error
    following = iter(events)
    return _value(following, next(following)) if events else None


def write_document(value: object) -> str:
    """The YAML of that value, which `read_document` reads as the same, between the marks of its
    beginning and its end.
    """
    return yaml.dump(
        value,
        Dumper=_DUMPER,
        sort_keys=False,
        allow_unicode=True,
        width=200,
        explicit_start=True,
        explicit_end=True,
    )


def _checked(text: str) -> Iterator[yaml.Event]:
    depth = documents = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            raise ValueError("it uses an alias")  # noqa: TRY004  what is wrong is the text
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if depth > _MAX_DEPTH or documents > 1:
            raise ValueError(
                "it is nested too deep" if depth > _MAX_DEPTH else "it holds more than one document"
            )
        if isinstance(
            event, yaml.ScalarEvent | yaml.CollectionStartEvent | yaml.CollectionEndEvent
        ):
            yield event


def _value(events: Iterator[yaml.Event], event: yaml.Event) -> KeyFileValue:
    """Recursion is safe: the depth is bounded already."""
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[KeyFileValue] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(_value(events, event))
        return items
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(events)
    text = str(event.value) if isinstance(event, yaml.ScalarEvent) else ""
    return (
        None
        if text in _NOTHING and isinstance(event, yaml.ScalarEvent) and not event.style
        else text
    )


def _mapping(events: Iterator[yaml.Event]) -> dict[str, KeyFileValue]:
    pairs: dict[str, KeyFileValue] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        if not isinstance(event, yaml.ScalarEvent):
            raise ValueError("a name in it is no text")  # noqa: TRY004  the same
        name = str(event.value)
        if name in pairs:
            raise ValueError(f"{name[:80]!r} stands twice in one place")
        pairs[name] = _value(events, next(events))
    return pairs
