"""Names: one folding, under which two names are equal if any file system may take them for one
file. Pure.

File systems differ: most ignore letter case, HFS+ ignores invisible characters, Windows and SMB
servers drop dots and spaces at the end, NTFS gives a folder second names (`git~1`,
`Modules::$INDEX_ALLOCATION`). What decides by names must hold on all of them, so it asks here.
Folding joins more names than any one disk does; it is for comparing and refusing, never for opening
files.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from parachuted.visible import is_ignorable

_ELLIPSIS = "\u2026"  # which titles begin with, and no disk takes for dots
_STREAM = re.compile(r":[^:]*:\$[a-z_]+\Z")
# Names that decide over programs and are longer than the eight characters that FAT and NTFS keep
# for older programs, or begin with a dot.
_GUARDED = (
    "suggestions",
    ".parachute",
    ".git",
    ".claude",
    ".obsidian",
    ".agents",
    ".mcp.json",
    ".env",
    ".envrc",
    ".ssh",
    ".github",
    ".vscode",
    ".cursor",
    ".idea",
    ".husky",
    ".gitmodules",
    ".gitattributes",
    ".gitconfig",
    ".npmrc",
    ".netrc",
    ".parachuteignore",
)
_SHORT = re.compile(r"([^.~]{2,7})~\d{1,6}(\.[^.]{1,3})?\Z")
_HASHED = re.compile(r"[0-9a-f]{4}\Z")


def fold_name(name: str) -> str:
    """One name of a path, as the most lenient file system would compare it.

    Folding what is folded changes nothing.
    """
    if name.isascii():
        folded = name.lower()
        return _without_end(folded) if "~" not in folded and ":" not in folded else _folded(folded)
    return _folded(name)


def begins_with_dot(name: str) -> bool:
    """Whether some file system takes it for a name that begins with a dot, as those of programs'
    settings do.
    """
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
    composed = _ELLIPSIS.join(
        unicodedata.normalize("NFKC", part) for part in name.split(_ELLIPSIS)
    )  # not three dots
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
    """The guarded name whose short name this may be, such as `git~1`; else the name."""
    found = _SHORT.fullmatch(name)
    if found is None:
        return name
    stem, suffix = found[1], found[2] or ""
    return next((long for long in _GUARDED if _may_be_short(stem, suffix, long)), name)


def _may_be_short(stem: str, suffix: str, long: str) -> bool:
    """FAT and NTFS take six letters of the name, or two letters and four digits of a checksum, and
    three of the suffix.
    """
    base, dot, end = long.lstrip(".").partition(".")
    is_stem = stem == base[:6] or (stem[:2] == base[:2] and _HASHED.fullmatch(stem[2:]) is not None)
    return is_stem and suffix == dot + end[:3]
