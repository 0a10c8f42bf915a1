"""Loading: all the hooks of a home, from hooks.yaml and the hooks folder, and all that is wrong with them.

The home is trust: a file there that others could write is not read, nor one that lies in the vault, which agents write to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parachuted.hooks.document import DocumentRefusedError
from parachuted.hooks.hook import Hook
from parachuted.hooks.scripts import read_script
from parachuted.hooks.settings import Settings, read_settings
from parachuted.private import mark_at, without_waiting

SETTINGS = "hooks.yaml"
SCRIPTS = "hooks"
_LIMIT = 64 * 1024
_OTHERS = 0o022


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSet:
    """The hooks in the order of their declaration, and in a sentence each what is wrong.

    `is_whole` is False when there is a file or folder of hooks that could not be read, so that nobody knows what it would object to.
    """

    hooks: tuple[Hook, ...] = ()
    problems: tuple[str, ...] = ()
    is_whole: bool = True


class _RefusedError(Exception):
    """There is something, and it is not to be trusted."""


def load_hooks(home: Path, *, vault: Path | None = None, places: Mapping[str, str] | None = None) -> HookSet:
    """Read them. `vault` is where nothing is read from, and where the words of a command begin; `places` are what `$HOME` and the like
    stand for in them.
    """
    known = {"PARACHUTE_HOME": str(home), **(places or {})}
    if vault is not None:
        known |= {"PARACHUTE_VAULT": str(vault), "CLAUDE_PROJECT_DIR": str(vault)}
    problems: list[str] = []
    is_whole = True
    settings = Settings()
    try:
        settings = read_settings(_read(home / SETTINGS, vault), places=known)
        problems += [f"{SETTINGS} {problem}" for problem in settings.problems]
    except (_RefusedError, DocumentRefusedError) as error:
        problems.append(f"no hook of {SETTINGS} runs: {error}")
        is_whole = False
    scripts: list[Hook] = []
    try:
        scripts = _read_scripts(home / SCRIPTS, vault, problems)
    except _RefusedError as error:
        problems.append(f"no script in {SCRIPTS}/ runs: {error}")
        is_whole = False
    hooks = () if settings.is_off else (*settings.hooks, *scripts)
    return HookSet(hooks=hooks, problems=tuple(problems), is_whole=is_whole or settings.is_off)


def look(home: Path) -> tuple[object, ...]:
    """What changes whenever any of them does; costs a few system calls."""
    folder = home / SCRIPTS
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  half the time, twice a second
    except OSError:
        names = []
    return (mark_at(home / SETTINGS), mark_at(folder), *((name, mark_at(folder / name)) for name in names))


def _read(path: Path, vault: Path | None) -> str:
    try:
        with open(path, "rb", opener=without_waiting) as file:
            at = os.fstat(file.fileno())
            if not stat.S_ISREG(at.st_mode):
                raise _RefusedError("it is no file")
            _check(path, at, vault)
            data = file.read(_LIMIT + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _RefusedError(f"it cannot be read ({error.strerror})") from error
    if len(data) > _LIMIT:
        raise _RefusedError(f"it is larger than {_LIMIT // 1024} KB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _RefusedError("it is not UTF-8 text") from error


def _check(path: Path, at: os.stat_result, vault: Path | None) -> None:
    if at.st_uid not in {os.geteuid(), 0}:
        raise _RefusedError("it belongs to someone else")
    if at.st_mode & _OTHERS:
        raise _RefusedError(f"others may change it; `chmod go-w {path}` mends that")
    if vault is not None and path.resolve().is_relative_to(vault.resolve()):
        raise _RefusedError("it lies in the vault, and what is there is never a hook")


def _read_scripts(folder: Path, vault: Path | None, problems: list[str]) -> list[Hook]:
    try:
        at = folder.stat()
        names = sorted(os.listdir(folder))  # noqa: PTH208  names alone are wanted
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _RefusedError(f"the folder cannot be read ({error.strerror})") from error
    _check(folder, at, vault)
    found: list[Hook] = []
    for name in names:
        try:
            hook = read_script(folder / name)
            if hook is not None:
                _check(folder / name, (folder / name).stat(), vault)
                found.append(hook)
        except (ValueError, OSError) as error:
            problems.append(str(error))
        except _RefusedError as error:
            problems.append(f"{name} does not run: {error}")
    return found
