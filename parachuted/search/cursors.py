"""Cursors: where a page ended, as an opaque text."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence


def write_cursor(about: str, *values: object) -> str:
    """A text for the place after these values, in a list of that order."""
    return (
        urlsafe_b64encode(json.dumps([about, *values], separators=(",", ":")).encode())
        .decode()
        .rstrip("=")
    )


def read_cursor(text: str, about: str, kinds: Sequence[type | tuple[type, ...]]) -> list[object]:
    """The values in a cursor.

    Raises ValueError where it is none, or is of a list in another order.
    """
    try:
        found = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError) as error:
        raise ValueError("the cursor is invalid; pass `next` back unchanged") from error
    if not isinstance(found, list) or len(found) != len(kinds) + 1 or found[0] != about:
        raise ValueError("the cursor belongs to a list in another order; start again without it")
    values = found[1:]
    if not all(
        isinstance(value, kind) and not isinstance(value, bool)
        for value, kind in zip(values, kinds, strict=True)
    ):
        raise ValueError("the cursor is invalid; pass `next` back unchanged")
    return values
