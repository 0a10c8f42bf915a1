"""Scripts in the home's hooks folder; the file name alone makes each one a hook."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from parachuted.hooks.hook import Hook
from parachuted.hooks.names import UnknownEventError, parse_script_name

_LEFTOVERS = ("~", ".bak", ".orig", ".swp", ".tmp", ".md", ".txt")
_INTERPRETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {".py": (sys.executable,), ".sh": ("/bin/sh",)}
)
_COMMENT = re.compile(r"\s*(?:#+|//+|--|\"{3}|'{3})\s*(.*?)\s*(?:\"{3}|'{3})?\s*")
_LOOKED_AT = 4_096


def read_script(path: Path) -> Hook | None:
    """The hook that the file defines, or None.

    Raises ValueError for a defective one. An executable is started directly; a Python or shell
    script needs neither the executable bit nor a first line.
    """
    if path.name.endswith(_LEFTOVERS):
        return None
    try:
        event = parse_script_name(path.name)
    except UnknownEventError as error:
        raise ValueError(f"{path.name} does not run: {error}") from error
    if event is None:
        return None
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
            head = file.read(_LOOKED_AT)
    except OSError as error:
        raise ValueError(
            f"{path.name} does not run: it cannot be read ({error.strerror})"
        ) from error
    return Hook(
        id=path.name,
        event=event,
        argv=_argv(path, head),
        files=(path,),
        source="script",
        description=_description(head),
    )


def guarded_by(name: str) -> str | None:
    """The event that a script of that name is for; None: it is for none."""
    try:
        return None if name.endswith(_LEFTOVERS) else parse_script_name(name)
    except UnknownEventError:
        return None


def _argv(path: Path, head: bytes) -> tuple[str, ...]:
    interpreter = _INTERPRETERS.get(path.suffix)
    is_executable = os.access(path, os.X_OK)
    if is_executable and (interpreter is None or head.startswith(b"#!")):
        return (str(path),)
    if interpreter is None:
        raise ValueError(
            f"{path.name} does not run: it is not executable; `chmod +x` on it mends that"
        )
    return (*interpreter, str(path))


def _description(head: bytes) -> str | None:
    """The first descriptive line of the script."""
    for line in head.decode("utf-8", "replace").splitlines():
        if line.startswith("#!") or "coding:" in line or not line.strip():
            continue
        found = _COMMENT.fullmatch(line)
        return found[1] or None if found else None
    return None
