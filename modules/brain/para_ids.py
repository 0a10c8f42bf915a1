"""Para-ids: how things of all modules are named, in every spelling that files may hold."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Callable
from typing import Final

_LETTERS: Final = string.ascii_lowercase + string.digits
_LENGTH: Final = 12
_LENGTHS: Final = frozenset({6, 8, _LENGTH})  # of all that there were
_ANY = re.compile(
    r"(?:para:)?(?:(?P<module>[a-z][a-z0-9-]*):)?(?P<id>[a-z0-9]{12}|[a-z0-9]{8}|[a-z0-9]{6})",
    re.IGNORECASE,
)


def new_para_id(is_taken: Callable[[str], bool]) -> str:
    """A para-id of Brain's that nothing has yet."""
    while True:
        letters = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        if not is_taken(found := f"para:brain:{letters}"):
            return found


def short_id(text: str) -> str:
    """What all spellings of an id have in common: `para:brain:A1b2c3d4e5f6` and `a1b2c3d4e5f6` are
    `a1b2c3d4e5f6`.

    An id of another module keeps its module; a hand-made id (`project-parachute`) is itself, in
    small letters.
    """
    text = text.strip()
    if ":" not in text and len(text) not in _LENGTHS:
        return text.lower()
    found = _ANY.fullmatch(text)
    if found is None:
        return text.lower()
    module = (found["module"] or "brain").lower()
    short = found["id"].lower()
    return short if module == "brain" else f"{module}:{short}"
