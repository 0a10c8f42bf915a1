"""Declared origin: the `origin` in a note's frontmatter, found even where that frontmatter is
broken.

A clipper writes a page's title beside `origin: web`, and a title such as `Ten tips: the best` makes
the block no YAML. That must not make the note trusted. So where the block cannot be read exactly,
each line that begins with the key counts, with all of its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from parachuted.vault.bounded_yaml import MAX_BYTES
from parachuted.vault.frontmatter import BOM, find_block, read_block

_NAME = "origin"
_KEY = re.compile(_NAME.encode(), re.IGNORECASE)
_LINE = re.compile(
    rb"^[ \t\-{,?]*+[\"']?origin[\"']?[ \t]*+:([^\n]*+(?>\n[ \t\-][^\n]*+)*+)",
    re.IGNORECASE | re.MULTILINE,
)
_WORD = re.compile(r"\w+")
_END = re.compile(rb"\n[ \t]*\r?\n|\n\.\.\.")


def declared_origin(data: bytes) -> tuple[str, ...]:
    """The values of `origin`, however it is capitalized.

    YAML is read only where the word occurs in the block.

    A note's beginning is enough, if it holds the whole frontmatter.
    """
    block = find_block(data) if data.startswith((b"---", BOM)) else None
    if block is None:
        return ()
    start, stop = block.span.start, block.span.stop
    if block.unterminated:
        end = _END.search(data, start - 1, start + MAX_BYTES)
        stop = end.start() if end is not None else min(start + MAX_BYTES, len(data))
    if (
        _KEY.search(data, start, stop) is None and data.find(b"\\", start, stop) < 0
    ):  # a key may be written with escapes
        return ()
    matter = read_block(data, block.span)
    said = [
        word
        for name, value in matter.values.items()
        if name.casefold() == _NAME
        for word in _words(value)
    ]
    if matter.problems or block.unterminated:
        said += [
            word
            for line in _LINE.finditer(data, start, stop)
            for word in _WORD.findall(line[1].decode("utf-8", "replace"))
        ]
    return tuple(said)


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Sequence):
        yield from (one for one in value if isinstance(one, str))
