"""Patterns: lists of paths as grants, and the intersection of two. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from parachuted.access.agent_config import AgentConfig, is_outside
from parachuted.keys import AccessGrant, PathGlob

NOTHING = AccessGrant(alternatives=())


class ExactPaths(PathGlob):
    """Exactly these files: `?` and `*` in their names are ordinary characters. As fast for many as
    for one.
    """

    __slots__ = ("folders", "paths")
    paths: frozenset[str]
    folders: frozenset[str]

    def __init__(self, paths: Iterable[str]) -> None:
        object.__setattr__(self, "paths", frozenset(paths))
        object.__setattr__(
            self,
            "folders",
            frozenset(folder for path in self.paths for folder in _folders_of(path)),
        )
        object.__setattr__(self, "text", ", ".join(sorted(self.paths)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExactPaths) and other.paths == self.paths

    def __hash__(self) -> int:
        return hash(self.paths)

    def __repr__(self) -> str:
        return f"ExactPaths({sorted(self.paths)!r})"

    def matches(self, path: str) -> bool:
        return path in self.paths

    def enters(self, folder: str) -> bool:
        return folder in self.folders

    def covers(self, other: PathGlob) -> bool:
        return isinstance(other, ExactPaths) and other.paths <= self.paths

    def _names(self) -> list[str]:
        return ["\0"]  # no pattern but ** is known to cover them


def _folders_of(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:end]) for end in range(len(names))]


def grant_of(patterns: Iterable[str]) -> AccessGrant:
    """The union of the patterns; none of them grants nothing.

    Raises ValueError for an invalid pattern.
    """
    globs = tuple(map(PathGlob, patterns))
    return AccessGrant(alternatives=((globs,),)) if globs else NOTHING


def exactly(paths: Iterable[str]) -> AccessGrant:
    files = ExactPaths(paths)
    return AccessGrant(alternatives=(((files,),),)) if files.text else NOTHING


def all_of(one: AccessGrant, other: AccessGrant) -> AccessGrant:
    return one.both(other)


def any_of(one: AccessGrant, other: AccessGrant) -> AccessGrant:
    if one.alternatives is None or other.alternatives is None:
        return one if one.alternatives is None else other
    return AccessGrant(alternatives=(*one.alternatives, *other.alternatives))


def within(grant: AccessGrant, config: AgentConfig) -> AccessGrant:
    """What the grant sees and each of the config's lists of paths names; a config without lists
    grants nothing.
    """
    lists = [config.paths, config.sandbox.allowed_paths if config.sandbox else ()]
    given = [paths for paths in lists if paths]
    if not given:
        return NOTHING
    more = tuple(
        tuple(PathGlob(path) for path in paths if not is_outside(path) and "${" not in path)
        for paths in given
    )
    return all_of(grant, AccessGrant(alternatives=(more,)))
