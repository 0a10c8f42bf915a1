"""Meaning: which of the changed parts of a note concern a watcher."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from parachuted.bubbling.patterns import PatternPart
from parachuted.bubbling.trie import WatchMatch
from parachuted.vault.meaning import FRONTMATTER, OWN_NAMES, WHOLE, Meaning, changed_units, meaning
from parachuted.vault.note import plain_title

__all__ = ["Meaning", "changed_units", "matters", "meaning"]

_NUMBER = re.compile(r" \(\d+\)\Z")


def matters(units: Iterable[str], match: WatchMatch) -> tuple[str, ...]:
    """The changed units that the match is about: its sections with everything below them and its
    keys, or the whole note.
    """
    return tuple(
        unit
        for unit in units
        if (
            not match.narrowings
            or unit in {WHOLE, FRONTMATTER}
            or any(_is_within(unit, part) for part in match.narrowings)
        )
        and not any(_is_within(unit, part) for part in match.without)
    )


def _is_within(unit: str, part: PatternPart) -> bool:
    if part.mark == "@":
        return unit.startswith("@") and _folded(unit[1:]) == _folded(part.name)
    if unit.startswith("@") or unit in OWN_NAMES:
        return False
    wanted = [_folded(title) for title in plain_title(part.name).split(">")]
    path = unit.removeprefix("#").split(">")
    return any(_is_named(path[start : start + len(wanted)], wanted) for start in range(len(path)))


def _is_named(titles: list[str], wanted: list[str]) -> bool:
    pairs = zip(titles, wanted, strict=False)
    return len(titles) == len(wanted) and all(
        name in {_folded(title), _folded(_NUMBER.sub("", title))} for title, name in pairs
    )


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())
