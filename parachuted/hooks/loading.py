"""Loads the hooks of a home, from hooks.yaml and from the scripts in the hooks folder, whose names
alone make them hooks, with every problem found.

The home is trusted: a file that others could write is not read, nor one inside the vault, which
agents write to.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from parachuted.home_files import YamlRejectedError
from parachuted.home_files.private import is_in, mark_at, without_waiting
from parachuted.hooks.hook import (
    BLOCKING,
    NEVER_CLOSED,
    Hook,
    UnknownEventError,
    is_blocking,
    parse_script_name,
)
from parachuted.hooks.settings import HookFile, read_settings

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
    for line in head.decode("utf-8", "replace").splitlines():
        if line.startswith("#!") or "coding:" in line or not line.strip():
            continue
        found = _COMMENT.fullmatch(line)
        return found[1] or None if found else None
    return None


SETTINGS = "hooks.yaml"
SCRIPTS = "hooks"
_LIMIT = 64 * 1024
_OTHERS = 0o022


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSet:
    """The hooks in the order of declaration, and all problems, a sentence each.

    `closed` maps events to why a hook that guards them cannot be started as declared.
    """

    hooks: tuple[Hook, ...] = ()
    problems: tuple[str, ...] = ()
    closed: Mapping[str, str] = field(default_factory=dict)


class _RefusedError(Exception):
    """There is something, and it cannot be read."""


def load_hooks(
    home: Path, *, vault: Path | None = None, places: Mapping[str, str] | None = None
) -> HookSet:
    """Load them.

    `vault` is where commands start and where no hook is read from; `places` are the values of
    `$HOME` and similar variables in commands.
    """
    known = {"PARACHUTE_HOME": str(home), **(places or {})}
    if vault is not None:
        known |= {"PARACHUTE_VAULT": str(vault), "CLAUDE_PROJECT_DIR": str(vault)}
    settings = _load_settings(home / SETTINGS, vault, known)
    scripts = _load_scripts(home / SCRIPTS, vault)
    if settings.is_off:
        return HookSet(problems=(*settings.problems, *scripts.problems))
    closed = {**scripts.closed, **settings.closed}
    return HookSet(
        hooks=(*settings.hooks, *scripts.hooks),
        problems=(*settings.problems, *scripts.problems),
        closed={
            event: why
            for event, why in closed.items()
            if is_blocking(event) and event != NEVER_CLOSED
        },
    )


def look(home: Path) -> tuple[object, ...]:
    """What changes whenever any of them does; costs a few system calls."""
    folder = home / SCRIPTS
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  half the time, twice a second
    except OSError:
        names = []
    return (
        mark_at(home / SETTINGS),
        mark_at(folder),
        *((name, mark_at(folder / name)) for name in names),
    )


def _load_settings(path: Path, vault: Path | None, places: Mapping[str, str]) -> HookFile:
    """The content of hooks.yaml; of an untrusted one, only the events that it would guard."""
    try:
        text, unsafe = _read(path, vault)
        found = read_settings(text, places=places)
    except (_RefusedError, YamlRejectedError) as error:
        problem = f"no hook of {SETTINGS} runs: {error}"
        return HookFile(problems=[problem], closed=dict.fromkeys(BLOCKING, problem))
    if unsafe is not None:
        problem = f"no hook of {SETTINGS} runs: {unsafe}"
        return HookFile(
            problems=[problem],
            closed=dict.fromkeys([*found.closed, *(hook.event for hook in found.hooks)], problem),
        )
    problems = [f"{SETTINGS} {problem}" for problem in found.problems]
    return replace(
        found,
        problems=problems,
        closed={event: f"{SETTINGS} {why}" for event, why in found.closed.items()},
    )


def _read(path: Path, vault: Path | None) -> tuple[str, str | None]:
    """The text, and why it is not to be trusted."""
    try:
        with open(path, "rb", opener=without_waiting) as file:
            at = os.fstat(file.fileno())
            if not stat.S_ISREG(at.st_mode):
                raise _RefusedError("it is not a file")
            data = file.read(_LIMIT + 1)
    except FileNotFoundError:
        return "", None
    except OSError as error:
        raise _RefusedError(f"it cannot be read ({error.strerror})") from error
    if len(data) > _LIMIT:
        raise _RefusedError(f"it is larger than {_LIMIT // 1024} KB")
    try:
        return data.decode("utf-8-sig"), _unsafe(path, at, vault)
    except UnicodeDecodeError as error:
        raise _RefusedError("it is not UTF-8 text") from error


def _unsafe(path: Path, at: os.stat_result, vault: Path | None) -> str | None:
    if at.st_uid not in {os.geteuid(), 0}:
        return "it belongs to someone else"
    if at.st_mode & _OTHERS:
        return f"others may change it; `chmod go-w {path}` mends that"
    if vault is not None and is_in(path.resolve(), vault.resolve()):
        return "it lies in the vault, and what is there is never a hook"
    return None


def _load_scripts(folder: Path, vault: Path | None) -> HookSet:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  names alone are wanted
        unsafe = _unsafe(folder, folder.stat(), vault)
    except FileNotFoundError:
        return HookSet()
    except OSError as error:
        problem = f"no script in {SCRIPTS}/ runs: the folder cannot be read ({error.strerror})"
        return HookSet(problems=(problem,), closed=dict.fromkeys(BLOCKING, problem))
    if unsafe is not None:
        problem = f"no script in {SCRIPTS}/ runs: {unsafe}"
        return HookSet(
            problems=(problem,), closed=dict.fromkeys(filter(None, map(guarded_by, names)), problem)
        )
    hooks: list[Hook] = []
    refused: dict[str, str] = {}
    for name in names:
        try:
            hook = read_script(folder / name)
            if hook is None:
                continue
            if (why := _unsafe(folder / name, (folder / name).stat(), vault)) is None:
                hooks.append(hook)
            else:
                refused[name] = f"{name} does not run: {why}"
        except (ValueError, OSError) as error:
            refused[name] = str(error)
    closed = {
        event: why for name, why in refused.items() if (event := guarded_by(name)) is not None
    }
    return HookSet(hooks=tuple(hooks), problems=tuple(refused.values()), closed=closed)
