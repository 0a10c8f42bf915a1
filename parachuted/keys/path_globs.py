"""Path globs: `*` and `?` stay within one name, `**` stands for any number of names.

Each star takes as little as it can and never gives it back, which decides the same, so the time is
bounded by pattern times path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

_T = TypeVar("_T")
_MOST_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class PathGlob:
    """A pattern, relative to the vault. Raises ValueError for what can match nothing in a vault."""

    text: str
    _files: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = self.text.split("/")
        if not self.text or len(self.text) > _MOST_CHARACTERS or "\0" in self.text:
            raise ValueError(f"{self.text[:80]!r} is not a pattern of paths")
        if any(
            name in {"", ".", ".."} or ("**" in name and name != "**") for name in names
        ) or self.text.startswith("~"):
            raise ValueError(
                f"{self.text[:80]!r} is not a pattern of paths in a vault, such as 'Projects/**'"
            )
        object.__setattr__(self, "_files", re.compile(_expression(self._names())))

    @property
    def folder(self) -> str:
        """The folder below which all that is meant lies; empty where it begins with a star."""
        names = self.text.split("/")[:-1]
        wild = [number for number, name in enumerate(names) if "*" in name or "?" in name]
        return "/".join(names[: wild[0]] if wild else names)

    def matches(self, path: str) -> bool:
        """A folder is meant by what is below it, so `Projects/**` does not match `Projects`."""
        return self._files.fullmatch(path) is not None

    def enters(self, folder: str) -> bool:
        """Whether a file below that folder could be meant. The vault itself is the empty path."""
        names, parts = self.text.split("/"), folder.split("/") if folder else []
        if "**" in names:
            names = names[: names.index("**")]
        elif len(parts) >= len(names):
            return False
        return all(_covers_name(name, part) for name, part in zip(names, parts, strict=False))

    def covers(self, other: PathGlob) -> bool:
        """Whether this surely matches all that `other` does: a no may be a yes that is hard to
        prove.
        """
        if self.text == "**":
            return True
        return _matches(
            _ordered(self._names()),
            _ordered(other._names()),
            "**",
            lambda mine, its: its != "**" and _covers_name(mine, its),
        )

    def _names(self) -> list[str]:
        names = self.text.split("/")
        return [*names[:-1], "*", "**"] if names[-1] == "**" else names


def _expression(names: Sequence[str]) -> str:
    """Names between two `**` are looked for from the left, and the first place holds."""
    groups: list[list[str]] = [[]]
    for name in names:
        if name != "**":
            groups[-1].append(_name_expression(name))
        elif groups[-1] or len(groups) == 1:
            groups.append([])
    found = "/".join(groups[0])
    for number, group in enumerate(groups[1:], start=1):
        slash = "/" if found else ""
        if not group:
            return rf"{found}(?:{slash}[\s\S]*)?"
        end = r"\Z" if number == len(groups) - 1 else "(?![^/])"
        found += f"{slash}(?>(?:[^/]+/)*?{'/'.join(group)}{end})"
    return found


def _name_expression(name: str) -> str:
    if name == "*":
        return "[^/]++"
    if "*" not in name:
        return _literal(name)
    first, *between, last = name.split("*")
    found = "".join(f"(?>[^/]*?{_literal(piece)})" for piece in between)
    end = f"(?>[^/]*?{_literal(last)}(?![^/]))" if last else "[^/]*+"
    return f"{_literal(first)}{found}{end}"


def _literal(piece: str) -> str:
    return "[^/]".join(map(re.escape, piece.split("?")))


def _ordered(names: Sequence[str]) -> list[str]:
    """One spelling for all that mean the same: of stars side by side `**` comes first, once."""
    found: list[str] = []
    for name in names:
        start = len(found)
        while start and found[start - 1] in {"*", "**"}:
            start -= 1
        if name == "**" and "**" not in found[start:]:
            found.insert(start, name)
        elif name != "**":
            found.append(name)
    return found


def _covers_name(pattern: str, name: str) -> bool:
    """Whether `pattern` matches all that `name` does."""
    if "*" not in pattern and "?" not in pattern:
        return pattern == name
    return _matches(
        pattern, name, "*", lambda mine, its: mine == its or (mine == "?" and its != "*")
    )


def _matches(
    pattern: Sequence[_T], text: Sequence[_T], star: _T, same: Callable[[_T, _T], bool]
) -> bool:
    at = mark = here = 0
    back: int | None = None
    while here < len(text):
        if at < len(pattern) and pattern[at] == star:
            back, mark, at = at, here, at + 1
        elif at < len(pattern) and same(pattern[at], text[here]):
            at, here = at + 1, here + 1
        elif back is not None:
            mark += 1
            at, here = back + 1, mark
        else:
            return False
    return all(one == star for one in pattern[at:])
