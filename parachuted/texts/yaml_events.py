"""YAML events: the stream of a text's events, within fixed limits. Many `[` kill the process inside
the C composer and aliases make terabytes, so that is never reached, and every scalar stays a text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import yaml

RefusalKind: TypeAlias = Literal["malformed", "too-large", "too-deep", "too-long", "alias"]

MAX_BYTES = 64 * 1024
MAX_DEPTH = 64
MAX_EVENTS = 20_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAB_IN_BLOCK_TEXT = "found a tab character where an indentation space is expected"
_TOO_DEEP_FOR_LIBYAML = "exceeded maximum nesting depth"  # 1,000 levels, as PyYAML 6.0.4 bundles it


class YamlRefusal(Exception):  # noqa: N818  the rooms that read YAML have an error of their own each
    """Why a text is not read, in words that follow its name ("the file"), and the line, from 1."""

    def __init__(self, kind: RefusalKind, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.kind, self.reason, self.line = kind, reason, line


def parse_events(
    text: str, *, limit: int = MAX_BYTES, most: int = MAX_EVENTS, has_aliases: bool = False
) -> list[yaml.Event]:
    """The events of one document. `limit` is in characters, `most` in events. Raises YamlRefusal
    for what is malformed, too large, deep or long, a second document and, unless `has_aliases`, an
    alias.
    """
    if len(text) > limit:
        raise YamlRefusal("too-large", f"is larger than {limit // 1024} KB")
    try:
        try:
            return _checked(yaml.parse(text, Loader=_LOADER), most, has_aliases=has_aliases)
        except yaml.scanner.ScannerError as error:
            if error.problem != _TAB_IN_BLOCK_TEXT:
                raise
            # libyaml refuses a block text whose first line begins with a tab after its indentation;
            # PyYAML's own parser reads it.
            plain = yaml.parse(text.removeprefix("\ufeff"), Loader=yaml.SafeLoader)
            return _checked(plain, most, has_aliases=has_aliases)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        if error.problem == _TOO_DEEP_FOR_LIBYAML:
            raise too_deep(line) from error
        is_alias = error.context == "while scanning an alias"
        hint = "; put a text that begins with * in quotes" if is_alias else ""
        reason = f"is not YAML: {error.problem or error.context}"
        raise YamlRefusal("malformed", f"{reason}{hint}", line) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = f"is not YAML: {str(error).splitlines()[0]}"
        raise YamlRefusal("malformed", reason) from error


def too_deep(line: int | None = None) -> YamlRefusal:
    return YamlRefusal("too-deep", f"is nested more than {MAX_DEPTH} levels deep", line)


def _checked(events: Iterable[yaml.Event], most: int, *, has_aliases: bool) -> list[yaml.Event]:
    found: list[yaml.Event] = []
    depth = documents = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        line = event.start_mark.line + 1 if event.start_mark else None
        if depth > MAX_DEPTH:
            raise too_deep(line)
        if documents > 1:
            raise YamlRefusal("malformed", "holds more than one YAML document", line)
        if isinstance(event, yaml.AliasEvent) and not has_aliases:
            name = f"*{event.anchor}"[:80]
            raise YamlRefusal("alias", f"uses an alias: put {name!r} in quotes", line)
        if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            found.append(event)
        if len(found) > most:
            raise YamlRefusal("too-long", f"holds more than {most} values", line)
    return found
