"""Loads the hooks of a home, from hooks.yaml and the scripts in its hooks folder, with every
problem. A file that others could write, or one inside the vault, is not read.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from parachuted.errors import NotFoundError
from parachuted.home_files import YamlRejectedError
from parachuted.home_files.private import (
    UntrustedFileError,
    is_in,
    mark_at,
    read_private,
    real_path,
    why_untrusted,
)
from parachuted.hooks.hook import (
    BLOCKING,
    NEVER_CLOSED,
    Hook,
    parse_script_name,
)
from parachuted.hooks.settings import HookFile, read_settings

SETTINGS = "hooks.yaml"
SCRIPTS = "hooks"

_LIMIT = 64 * 1024
_LOOKED_AT = 4_096
_INTERPRETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {".py": (sys.executable,), ".sh": ("/bin/sh",)}
)
_COMMENT = re.compile(r"\s*(?:#+|//+|--|\"{3}|'{3})\s*(.*?)\s*(?:\"{3}|'{3})?\s*")


def load_hooks(home: Path, *, vault: Path, places: Mapping[str, str]) -> HookFile:
    """`vault` is where commands start and where no hook is read from; `places` are the values of
    `$HOME` and similar variables in commands.
    """
    known = {
        **places,
        "PARACHUTE_HOME": str(home),
        **dict.fromkeys(("PARACHUTE_VAULT", "CLAUDE_PROJECT_DIR"), str(vault)),
    }
    settings = _load_settings(home / SETTINGS, vault, known)
    scripts = _load_scripts(home / SCRIPTS, vault)
    problems = settings.problems + scripts.problems
    if settings.is_off:
        return HookFile(problems=problems)
    return HookFile(
        hooks=settings.hooks + scripts.hooks,
        problems=problems,
        closed={
            event: why
            for event, why in {**scripts.closed, **settings.closed}.items()
            if event in BLOCKING and event != NEVER_CLOSED
        },
    )


def look(home: Path) -> tuple[object, ...]:
    """What changes whenever any of them does; costs a few system calls."""
    folder = home / SCRIPTS
    marks = ((name, mark_at(folder / name)) for name in _names(folder))
    return mark_at(home / SETTINGS), mark_at(folder), *marks


def read_script(path: Path, vault: Path) -> Hook | None:
    """The hook that the file defines, or None. ValueError for a defective one, NotFoundError where
    its name means no event. A Python or shell script needs no executable bit nor first line.
    """
    if (event := parse_script_name(path.name)) is None:
        return None
    try:
        at = path.stat()
        if not stat.S_ISREG(at.st_mode):
            return None
        with path.open("rb") as file:
            head = file.read(_LOOKED_AT)
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror})") from error
    if (why := why_untrusted(path, at) or _why_in(vault, path)) is not None:
        raise ValueError(why)
    return Hook(
        id=path.name,
        event=event,
        argv=_argv(path, head),
        files=(path,),
        source="script",
        description=_description(head),
    )


def _load_settings(path: Path, vault: Path, places: Mapping[str, str]) -> HookFile:
    """The content of hooks.yaml; one that is not to be read guards all that can be guarded."""
    try:
        found = read_settings(read_private(path, _LIMIT) or "", places=places)
        why = _why_in(vault, path)
    except (UntrustedFileError, YamlRejectedError) as error:
        why = str(error)
    if why is not None:
        problem = f"no hook of {SETTINGS} runs: {why}"
        return HookFile(problems=[problem], closed=dict.fromkeys(BLOCKING, problem))
    found.problems = [f"{SETTINGS} {problem}" for problem in found.problems]
    found.closed = {event: f"{SETTINGS} {why}" for event, why in found.closed.items()}
    return found


def _load_scripts(folder: Path, vault: Path) -> HookFile:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  names alone are wanted
        why = why_untrusted(folder, folder.stat(), is_folder=True) or _why_in(vault, folder)
    except FileNotFoundError:
        return HookFile()
    except OSError as error:
        names, why = [], f"the folder cannot be read ({error.strerror})"
    if why is not None:
        problem = f"no script in {SCRIPTS}/ runs: {why}"
        events = _guarded(names) if names else BLOCKING
        return HookFile(problems=[problem], closed=dict.fromkeys(events, problem))
    found = HookFile()
    for name in names:
        try:
            hook = read_script(folder / name, vault)
        except (ValueError, NotFoundError) as error:
            found.problems.append(f"{name} does not run: {error}")
            found.closed |= dict.fromkeys(_guarded([name]), found.problems[-1])
        else:
            found.hooks += [hook] if hook is not None else []
    return found


def _guarded(names: Iterable[str]) -> list[str]:
    found = []
    for name in names:
        try:
            event = parse_script_name(name)
        except NotFoundError:
            continue
        found += [event] if event is not None else []
    return found


def _why_in(vault: Path, path: Path) -> str | None:
    if is_in(real_path(path), real_path(vault)):
        return f"{path} lies in the vault, and what is there is never a hook"
    return None


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208  half the time, twice a second
    except OSError:
        return []


def _argv(path: Path, head: bytes) -> tuple[str, ...]:
    interpreter = _INTERPRETERS.get(path.suffix)
    is_executable = os.access(path, os.X_OK)
    if is_executable and (interpreter is None or head.startswith(b"#!")):
        return (str(path),)
    if interpreter is None:
        raise ValueError("it is not executable; `chmod +x` on it mends that")
    return (*interpreter, str(path))


def _description(head: bytes) -> str | None:
    for line in head.decode("utf-8", "replace").splitlines():
        if line.startswith("#!") or "coding:" in line or not line.strip():
            continue
        found = _COMMENT.fullmatch(line)
        return found[1] or None if found else None
    return None
