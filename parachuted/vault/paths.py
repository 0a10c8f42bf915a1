"""Paths: the one type for a path inside the vault."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import Self

from parachuted.errors import PathRefusedError

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udc7f\udd00-\udfff]")
NAME_BYTES = 255
MOST_FOLDERS = 120
_PATH_BYTES = 4096


class VaultPath(str):
    """A vault-relative path with `/` between names; the empty path is the vault itself.

    Names that are not UTF-8 are carried as `os.fsdecode` gives them. Only `parse` makes one from
    text that came from outside.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Check `text`; raises PathRefusedError with the reason."""
        reason = refusal(text)
        if reason is not None:
            raise PathRefusedError(f"{text[:200]!r} is not a path in the vault: {reason}")
        return cls(text)

    @property
    def name(self) -> str:
        """The last name."""
        return self.rpartition("/")[2]

    @property
    def folder(self) -> VaultPath:
        """The folder it is in; empty for the vault itself."""
        return VaultPath(self.rpartition("/")[0])

    def __truediv__(self, name: str) -> VaultPath:
        return VaultPath.parse(f"{self}/{name}" if self else name)


def refusal(text: str) -> str | None:
    """Why `text` is no path in the vault, or None."""
    if not text:
        return "it is empty"
    return _refusal_of_text(text) or _refusal_of_names(text)


def _refusal_of_text(text: str) -> str | None:
    if text == "~" or text.startswith(("/", "~/")):
        return "it does not start inside the vault"
    if _CONTROL.search(text) or _LONE_SURROGATE.search(text):
        return "it holds control characters"
    if os.fsdecode(os.fsencode(text)) != text:
        return "it is a second spelling of another path"
    return None


def _refusal_of_names(text: str) -> str | None:
    names = text.split("/")
    if any(name in {"", ".", ".."} for name in names):
        return "it holds an empty name, `.` or `..`"
    if len(names) - 1 > MOST_FOLDERS:
        return f"it is in more than {MOST_FOLDERS} folders, one in another, which are not watched"
    if len(os.fsencode(text)) > _PATH_BYTES or any(
        len(os.fsencode(name)) > NAME_BYTES for name in names
    ):
        return "a name is longer than 255 bytes"
    return None


def name_refusal(name: str) -> str | None:
    """Why `name` can be no name in a path of the vault, or None; for names read from a folder, so
    without `/`.
    """
    if name.isascii() and name.isprintable() and len(name) <= NAME_BYTES:
        return None
    return refusal(f"x/{name}")


def same_name(one: str, other: str) -> bool:
    """Whether two names are the same to a person: Unicode form aside (macOS stores NFD), letter
    case kept.
    """
    return one == other or unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


def printable(path: str) -> str:
    """`path` as it may be shown or sent: bytes that are not UTF-8, and control characters, as an
    escape like in a Python string.
    """
    if path.isascii() and path.isprintable():
        return str(path)
    return _CONTROL.sub(_escaped, os.fsencode(path).decode("utf-8", "backslashreplace"))


def _escaped(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"
