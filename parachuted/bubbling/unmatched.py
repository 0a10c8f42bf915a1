"""Unmatched: which patterns of a declaration match no file now, and what their writer may have
meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from parachuted.bubbling.patterns import WatchDeclaration, WatchPattern
from parachuted.bubbling.trie import VaultTree, paths_of
from parachuted.vault import CONTEXT_NAMES

_CONTEXT = " or ".join(CONTEXT_NAMES)


def unmatched(declaration: WatchDeclaration, tree: VaultTree) -> Iterator[str]:
    """A sentence for each pattern without a match.

    It may name folders and notes beside those that the pattern names.
    """
    for pattern in (one for one in declaration.patterns if one.query is None):
        alone = WatchDeclaration(
            watcher=declaration.watcher, patterns=(replace(pattern, excludes=False),)
        )
        if not paths_of(alone, tree):
            yield (
                f'"{pattern.text}" '
                f"{'leaves nothing out' if pattern.excludes else 'matches nothing'}: "
                f"{_why(pattern, tree)}"
            )


def _why(pattern: WatchPattern, tree: VaultTree) -> str:
    folder, *rest = "", *pattern.segments
    while len(rest) > (0 if pattern.context else 1) and isinstance(rest[0], str):
        name = str(rest.pop(0))
        here = _joined(folder, name)
        if name not in tree.folders(folder):
            if f"{name}.md" in tree.files(folder):
                return f'there is no folder {here}; for the note write "{here}.md"'
            return f"there is no folder {here}{_meant(name, folder, tree.folders)}"
        folder = here
    if pattern.context and not rest:
        return (
            f"the folder {folder or 'of the vault'} has no {_CONTEXT}; for its notes write "
            f'"{_joined(folder, "*.md")}"'
        )
    if pattern.context:
        return f'no such folder has an {_CONTEXT}; for notes write "{_joined(folder, "*.md")}"'
    if isinstance(rest[0], str):
        return f"there is no file {_joined(folder, rest[0])}{_meant(rest[0], folder, tree.files)}"
    return "there is no such file"


def _meant(name: str, folder: str, names: Callable[[str], Iterable[str]]) -> str:
    known = {one.casefold(): one for one in names(folder)}
    found = difflib.get_close_matches(name.casefold(), known, n=1)
    return f"; did you mean {_joined(folder, known[found[0]])}?" if found else ""


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
