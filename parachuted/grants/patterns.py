"""Patterns: lists of paths as grants, and what two of them come to together. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from parachuted.grants.agent_config import AgentConfig, is_outside
from parachuted.keys import Glob, Grant

NOTHING = Grant(alternatives=())


@dataclass(frozen=True, slots=True)
class ExactPath(Glob):
    """One file, whatever its name: in the name of a note, `?` and `*` are letters like others."""

    def __post_init__(self) -> None:
        """Any path of the vault will do."""

    def matches(self, path: str) -> bool:
        """Whether it is that file."""
        return path == self.text

    def enters(self, folder: str) -> bool:
        """Whether it lies below that folder."""
        return not folder or self.text.startswith(f"{folder}/")

    def covers(self, other: Glob) -> bool:
        """Whether the other means this file alone."""
        return isinstance(other, ExactPath) and other.text == self.text


def grant_of(patterns: Iterable[str]) -> Grant:
    """What any of the patterns means; without one, nothing. Raises ValueError for what is no pattern."""
    globs = tuple(map(Glob, patterns))
    return Grant(alternatives=((globs,),)) if globs else NOTHING


def exactly(paths: Iterable[str]) -> Grant:
    """These files and no others."""
    files = tuple(map(ExactPath, paths))
    return Grant(alternatives=((files,),)) if files else NOTHING


def all_of(one: Grant, other: Grant) -> Grant:
    """What both see."""
    if one.alternatives is None or other.alternatives is None:
        return one if other.alternatives is None else other
    return Grant(alternatives=tuple((*mine, *its) for mine in one.alternatives for its in other.alternatives))


def any_of(one: Grant, other: Grant) -> Grant:
    """What either sees."""
    if one.alternatives is None or other.alternatives is None:
        return one if one.alternatives is None else other
    return Grant(alternatives=(*one.alternatives, *other.alternatives))


def within(grant: Grant, config: AgentConfig) -> Grant:
    """What the grant sees and each of the config's lists of paths names; a config that names none sees none."""
    lists = [config.paths, config.sandbox.allowed_paths if config.sandbox else ()]
    told = [one for one in lists if one]
    if not told:
        return NOTHING
    more = tuple(tuple(Glob(path) for path in paths if not is_outside(path) and "${" not in path) for paths in told)
    return all_of(grant, Grant(alternatives=(more,)))
