"""Corrections: a transcript that is made again keeps what a person changed in the first one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from merge3 import Merge3

_WORD = re.compile(r"\S+\s*|\s+")


def merge(first: str, corrected: str, again: str) -> str:
    """The second transcript with the corrections of the first.

    Merged word by word (three-way, merge3); where both changed a word, the person's holds.
    """
    return "".join(_merged(*(_WORD.findall(text) for text in (first, corrected, again))))


def _merged(first: Sequence[str], corrected: Sequence[str], again: Sequence[str]) -> Iterator[str]:
    merging = Merge3(first, corrected, again)
    for kind, *bounds in merging.merge_regions():
        start, end = bounds[-2:] if kind != "conflict" else bounds[2:4]
        source = {"unchanged": first, "a": corrected, "same": corrected, "b": again}.get(
            kind, corrected
        )
        yield from source[start:end]
