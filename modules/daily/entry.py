"""An entry of the journal, whichever file it stands in."""

from __future__ import annotations

import hashlib
import re
import string
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal

Kind = Literal["text", "voice", "linked", "photo", "handwriting"]

ID = r"(?:(?P<module>[a-z][a-z0-9-]*):)?(?P<id>[a-z0-9]{12}|[a-z0-9]{8}|[a-z0-9]{6})"
KEY_LETTERS = string.digits + string.ascii_lowercase  # in this order: imports made keys of it
KEY_LENGTH = 12
PLACEHOLDER = "*(Transcribing...)*"
"""The body of an entry whose recording waits for its words."""
_ANY_ID = re.compile(rf"(?:para:)?{ID}", re.IGNORECASE)
_SHORT = re.compile(r"[a-z0-9]{6,12}")
_TYPED = "plain_"
_LINK = re.compile(r"\[\[([^\[\]|\r\n]+)(?:\|[^\[\]\r\n]*)?\]\]")


class JournalError(ValueError):
    """An entry that is not in the journal, or a value that its format cannot hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One block of a day, or a file of its own.

    `key` is its id without `para:` and module, or `plain_N` for the N-th heading without an id.
    `created` is `HH:MM` in `zone` (None: the daemon's); `at` is the whole time, where the file says
    it. `audio` and `image` are paths below `Daily/`, `duration` is in seconds. `lines`: the first,
    and the one after the last.
    """

    key: str = ""
    module: str | None = None
    title: str
    body: str
    kind: str = "text"
    created: str = ""
    zone: tzinfo | None = None
    at: datetime | None = None
    audio: str | None = None
    image: str | None = None
    duration: int | None = None
    status: str | None = None
    mentions: tuple[str, ...] = ()
    is_private: bool = False
    lines: tuple[int, int] = (0, 0)

    @property
    def is_typed(self) -> bool:
        return self.key.startswith(_TYPED)

    @property
    def para_id(self) -> str | None:
        """None for an entry without one."""
        return f"para:{self.module or 'daily'}:{self.key}" if _SHORT.fullmatch(self.key) else None

    @property
    def link(self) -> str | None:
        return first_link(self.body)


def first_link(body: str) -> str | None:
    found = _LINK.search(body)
    return found[1].strip() if found else None


def short_id(text: str) -> str:
    """`para:daily:ABC123def456` is `abc123def456`; what is not an id is returned unchanged."""
    found = _ANY_ID.fullmatch(text.strip())
    return found["id"].lower() if found else text.strip()


def zone_of(text: str) -> tzinfo | None:
    if not text.startswith("UTC"):
        return None
    try:
        return datetime.fromisoformat(f"2000-01-01T00:00{text[3:] or 'Z'}").tzinfo
    except ValueError:
        return None


def one_line(title: str) -> str:
    return " ".join(title.split())


def is_id(text: str) -> bool:
    return _ANY_ID.fullmatch(text.strip()) is not None


def key_of_text(text: str) -> str:
    """A key that is always the same for the same text, so that what it names is made once."""
    number = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace")).digest()[:16])
    letters = []
    for _ in range(KEY_LENGTH):
        number, place = divmod(number, len(KEY_LETTERS))
        letters.append(KEY_LETTERS[place])
    return "".join(letters)
