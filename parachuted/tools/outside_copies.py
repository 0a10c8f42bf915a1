"""Read-only copies of granted folders beside the vault; changes to them are discarded.

Anything that begins with a dot is never copied (keys and settings are there), nor links, nor
folders of the system and of secrets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from parachuted.access.own_folders import OwnFolders
from parachuted.home_files.private import is_in
from parachuted.tools.folder_files import (
    FoundFile,
    LeftOut,
    ReadRefusedError,
    files_in,
    put_file,
    read_file,
)
from parachuted.vault import begins_with_dot, printable

_MOST_FILES = 5_000
_MOST_BYTES = 64 << 20
_LARGEST = 8 << 20
_MACHINES = ("/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/etc", "/root/.ssh")


@dataclass(slots=True)
class _Sum:
    files: int = 0
    size: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideCopies:
    """`copied` are what was asked for and the name of its copy; `strange` those of them that are
    not the person's own; `left_out` what was not copied, with the reason.
    """

    copied: tuple[tuple[str, str], ...] = ()
    strange: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()


def copy_outside(
    asked: tuple[str, ...],
    into: Path | None,
    *,
    uid: int | None,
    user_home: Path | None,
    never: tuple[Path, ...],
    own: OwnFolders | None = None,
) -> OutsideCopies:
    """Copy each folder, or file, to `into/<number>`.

    `never` are folders that are not copied, nor is what holds them. OSError.
    """
    if not asked:
        return OutsideCopies()
    if into is None:
        return OutsideCopies(
            left_out=tuple(
                (path, "this run has no place for what is beside the vault") for path in asked
            )
        )
    sum_, copied, strange = _Sum(), [], []
    for number, path in enumerate(asked, start=1):
        place = _place(path, user_home)
        real = _real(place)
        reason = "it needs a home" if place is None else _refusal(real, user_home, never)
        if real is None or reason is not None:
            sum_.left_out.append((printable(path), reason or ""))
            continue
        for file in _files(real, sum_):
            if not _copy(file, real, into, str(number), uid, sum_):
                break
        copied.append((path, str(number)))
        if own is None or not own.hold_real(real):
            strange.append(path)
    return OutsideCopies(
        copied=tuple(copied), strange=tuple(strange), left_out=tuple(sum_.left_out)
    )


def _place(path: str, user_home: Path | None) -> Path | None:
    text = path.removesuffix("/**").rstrip("/") or "/"
    if text.startswith("~"):
        return (
            None
            if user_home is None or not (text == "~" or text.startswith("~/"))
            else user_home / text[1:].lstrip("/")
        )
    return Path(text)


def _real(place: Path | None) -> Path | None:
    try:
        return place.resolve(strict=True) if place is not None else None
    except (OSError, RuntimeError):
        return None


def _refusal(real: Path | None, user_home: Path | None, never: tuple[Path, ...]) -> str | None:
    if real is None:
        return "it is not there"
    if any(begins_with_dot(part) for part in real.parts):
        return "what begins with a dot is not shown to agents"
    shut = [path.resolve() for path in (*never, *((user_home,) if user_home is not None else ()))]
    if any(is_in(one, real) for one in shut) or any(is_in(real, path.resolve()) for path in never):
        return "it holds what agents are not shown as a whole; name a folder within"
    if real == Path("/") or any(is_in(real, Path(path)) for path in _MACHINES):
        return "it belongs to the machine"
    return None


def _files(real: Path, sum_: _Sum) -> Iterator[FoundFile]:
    """Those of the folder; or the one file that it is."""
    if not real.is_dir():
        yield FoundFile(real.name, None, partial(read_file, real))
        return
    left_out = LeftOut()
    try:
        yield from files_in(real, left_out, most=_MOST_FILES)
    except OSError:  # what was looked at is what is copied, or nothing is
        left_out.closed["."] = "it was changed while it was looked at, or cannot be entered"
    for path, why in (*left_out.odd.items(), *left_out.closed.items()):
        sum_.left_out.append((printable(os.path.join(real, path)), why))  # noqa: PTH118  a text


def _copy(
    file: FoundFile, real: Path, into: Path, number: str, uid: int | None, sum_: _Sum
) -> bool:
    """Copy it; False where there is no room for more."""
    if sum_.files >= _MOST_FILES or sum_.size >= _MOST_BYTES:
        sum_.left_out.append(
            (
                printable(str(real)),
                f"more than {_MOST_FILES:,} files or {_MOST_BYTES >> 20} MB; the rest is left out",
            )
        )
        return False
    try:
        data = file.read(_LARGEST)
    except (ReadRefusedError, OSError) as error:
        reason = str(error) if isinstance(error, ReadRefusedError) else error.strerror or "it went"
        sum_.left_out.append((printable(os.path.join(real, file.path)), reason))  # noqa: PTH118  a text
        return True
    put_file(into, f"{number}/{file.path}", data, uid)
    sum_.files, sum_.size = sum_.files + 1, sum_.size + len(data)
    return True
