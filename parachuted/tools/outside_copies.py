"""Read-only copies of granted folders beside the vault; changes to them are discarded.

Anything that begins with a dot is never copied (keys and settings are there), nor links, nor
folders of the system and of secrets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.access.own_folders import OwnFolders
from parachuted.home_files.private import is_in
from parachuted.tools.folder_files import (
    LeftOut,
    ReadRefusedError,
    files_in,
    put_file,
    read_file,
    why_unread,
)
from parachuted.vault import begins_with_dot, printable

_MOST_FILES = 5_000
_MOST_BYTES = 64 << 20
_LARGEST = 8 << 20
_MACHINES = ("/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/etc", "/root/.ssh")


@dataclass(slots=True, kw_only=True)
class OutsideCopies:
    """`copied` are what was asked for and the name of its copy; `strange` those of them that are
    not the person's own; `left_out` what was not copied, with the reason.
    """

    copied: list[tuple[str, str]] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    files: int = 0
    size: int = 0


def copy_outside(
    asked: tuple[str, ...],
    into: Path,
    *,
    uid: int | None,
    user_home: Path,
    never: tuple[Path, ...],
    own: OwnFolders | None = None,
) -> OutsideCopies:
    """Copy each folder, or file, to `into/<number>`.

    `never` are folders that are not copied, nor is what holds them. OSError.
    """
    copies = OutsideCopies()
    for number, path in enumerate(asked, start=1):
        real = _real(path, user_home)
        reason = _refusal(real, user_home, never)
        if real is None or reason is not None:
            copies.left_out.append((printable(path), reason or ""))
            continue
        for name, data in _files(real, copies):
            if copies.files >= _MOST_FILES or copies.size >= _MOST_BYTES:
                limits = f"{_MOST_FILES:,} files or {_MOST_BYTES >> 20} MB"
                why = f"more than {limits}; the rest is left out"
                copies.left_out.append((printable(str(real)), why))
                break
            put_file(into, f"{number}/{name}", data, uid)
            copies.files, copies.size = copies.files + 1, copies.size + len(data)
        copies.copied.append((path, str(number)))
        if own is None or not own.hold_real(real):
            copies.strange.append(path)
    return copies


def _real(path: str, user_home: Path) -> Path | None:
    text = path.removesuffix("/**").rstrip("/") or "/"
    if text.startswith("~") and text != "~" and not text.startswith("~/"):
        return None
    place = user_home / text[1:].lstrip("/") if text.startswith("~") else Path(text)
    try:
        return place.resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def _refusal(real: Path | None, user_home: Path, never: tuple[Path, ...]) -> str | None:
    if real is None:
        return "it is not there"
    if any(begins_with_dot(part) for part in real.parts):
        return "what begins with a dot is not shown to agents"
    shut = [path.resolve() for path in (*never, user_home)]
    if any(is_in(path, real) for path in shut) or any(is_in(real, path) for path in shut[:-1]):
        return "it holds what agents are not shown as a whole; name a folder within"
    if real == Path("/") or any(is_in(real, Path(path)) for path in _MACHINES):
        return "it belongs to the machine"
    return None


def _files(real: Path, copies: OutsideCopies) -> Iterator[tuple[str, bytes]]:
    """Those of the folder; or the one file that it is."""
    left_out = LeftOut()
    try:
        if real.is_dir():
            yield from files_in(real, left_out, most=_MOST_FILES, largest=_LARGEST)
        else:
            yield real.name, read_file(real, _LARGEST)
    except (ReadRefusedError, OSError) as error:  # what was looked at is copied, or nothing is
        left_out.closed["."] = why_unread(error)
    for path, why in (*left_out.odd.items(), *left_out.closed.items()):
        copies.left_out.append((printable(os.path.normpath(f"{real}/{path}")), why))
