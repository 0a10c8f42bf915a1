"""Paths: names of files in the vault, safe and folded."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Self, TypeAlias

from parachuted.errors import PathRefusedError
from parachuted.texts.visible import is_ignorable

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udc7f\udd00-\udfff]")
NAME_BYTES = 255
MOST_FOLDERS = 120
_PATH_BYTES = 4096


_Handler: TypeAlias = Callable[[type[str]], dict[str, object]]


def _printed(handler: _Handler) -> dict[str, object]:
    """In an answer pydantic writes a path as `printable` does."""
    written = {
        "type": "function-plain",
        "function": printable,
        "return_schema": {"type": "str"},
    }
    return {**handler(str), "serialization": written}


class _Printed:
    def __get_pydantic_core_schema__(self, _source: object, handler: _Handler) -> dict[str, object]:
        return _printed(handler)


PathText: TypeAlias = Annotated[str, _Printed()]
"""A path that is only a text here; answers have it as `printable` writes it."""


class VaultPath(str):
    """A vault-relative path with `/` between names; the empty path is the vault itself.

    Only `parse` makes one from outside text. Names are as `os.fsdecode` gives them.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises PathRefusedError with the reason."""
        reason = refusal(text)
        if reason is not None:
            raise PathRefusedError(f"{text[:200]!r} is not a path in the vault: {reason}")
        return cls(text)

    @property
    def name(self) -> str:
        return self.rpartition("/")[2]

    @property
    def folder(self) -> VaultPath:
        return VaultPath(self.rpartition("/")[0])

    def __truediv__(self, name: str) -> VaultPath:
        return VaultPath.parse(f"{self}/{name}" if self else name)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, handler: _Handler) -> dict[str, object]:
        return _printed(handler)


def refusal(text: str) -> str | None:
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
    """Why a name read from a folder (so without `/`) can be no name in a path, or None."""
    if name.isascii() and name.isprintable() and len(name) <= NAME_BYTES:
        return None
    return refusal(f"x/{name}")


def printable(path: str) -> str:
    """The path as it may be shown or sent: odd bytes and control characters as escapes."""
    if path.isascii() and path.isprintable():
        return str(path)
    return _CONTROL.sub(_escaped, os.fsencode(path).decode("utf-8", "backslashreplace"))


def _escaped(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]):02x}"


_ELLIPSIS = "\u2026"  # which titles begin with, and no disk takes for dots
_STREAM = re.compile(r":[^:]*:\$[a-z_]+\Z")
# Names that decide over programs and are longer than the eight characters that FAT and NTFS keep
# for older programs, or begin with a dot.
_GUARDED = (
    *("suggestions", ".parachute", ".git", ".claude", ".obsidian", ".agents", ".mcp.json", ".env"),
    *(".envrc", ".ssh", ".github", ".vscode", ".cursor", ".idea", ".husky", ".gitmodules"),
    *(".gitattributes", ".gitconfig", ".npmrc", ".netrc", ".parachuteignore"),
)
_SHORT = re.compile(r"([^.~]{2,7})~\d{1,6}(\.[^.]{1,3})?\Z")
_HASHED = re.compile(r"[0-9a-f]{4}\Z")


def fold_name(name: str) -> str:
    """One name as the most lenient file system would compare it; folding twice changes nothing."""
    if name.isascii():
        folded = name.lower()
        return _without_end(folded) if "~" not in folded and ":" not in folded else _folded(folded)
    return _folded(name)


def begins_with_dot(name: str) -> bool:
    """Whether some file system takes it for such a name, which those of programs' settings are."""
    return name.startswith(".") or (
        (not name.isascii() or "~" in name) and fold_name(name).startswith(".")
    )


@lru_cache(maxsize=4096)
def _folded(name: str) -> str:
    """Each step may make work for another, so they are repeated until nothing changes."""
    while (folded := _step(name)) != name:
        name = folded
    return name


def _step(name: str) -> str:
    # the ellipsis is not three dots
    parts = (unicodedata.normalize("NFKC", part) for part in name.split(_ELLIPSIS))
    composed = _ELLIPSIS.join(parts)
    folded = composed.upper().casefold()
    seen = (
        folded
        if folded.isascii()
        else "".join(one for one in folded if not is_ignorable(one)) or folded
    )
    return _long(_STREAM.sub("", _without_end(seen)) or seen)


def _without_end(name: str) -> str:
    return name.rstrip(" .") or name


def _long(name: str) -> str:
    match = _SHORT.fullmatch(name)
    if match is None:
        return name
    stem, suffix = match[1], match[2] or ""
    return next((long for long in _GUARDED if _may_be_short(stem, suffix, long)), name)


def _may_be_short(stem: str, suffix: str, long: str) -> bool:
    """FAT and NTFS take six letters, or two and four hex digits, and three of the suffix."""
    base, dot, end = long.lstrip(".").partition(".")
    is_stem = stem == base[:6] or (stem[:2] == base[:2] and _HASHED.fullmatch(stem[2:]) is not None)
    return is_stem and suffix == dot + end[:3]


def nfc(name: str) -> str:
    """In the form in which patterns compare it."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)
