"""Watch checks: what `doctor` says of the notes that watch."""

from __future__ import annotations

from collections.abc import Iterable

from parachuted.bubbling import WatchDeclaration, WatchRegistry
from parachuted.vault import printable


def watch_notes(
    declarations: Iterable[WatchDeclaration], watches: WatchRegistry, *, names_others: bool
) -> list[dict[str, object]]:
    """What of each of these `watch:` lists could not be read, and which patterns match nothing.

    May take a moment in a large vault.

    `names_others`: whether a sentence may name folders and notes other than the one that watches.
    """
    found = [(one.watcher, "watch", problem) for one in declarations for problem in one.problems]
    if names_others:
        found += [
            (one.watcher, "watch-unmatched", told)
            for one in declarations
            for told in watches.unmatched(one.watcher)
        ]
    return [
        {"path": printable(path), "code": code, "message": printable(message)}
        for path, code, message in found
    ]
