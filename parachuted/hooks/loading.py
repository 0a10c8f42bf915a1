"""Loads the hooks of a home, from hooks.yaml and the scripts in its hooks folder, with every
problem and its line; the others go on working. A file that others could write, or one inside the
vault, is not read.

In hooks.yaml, under each event stands a list of hooks (our shape), or of groups with a matcher and
hooks (Claude Code's, whose whole settings file may be pasted). An unknown key does not disarm its
hook.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from parachuted.errors import NotFoundError
from parachuted.home_files import YamlNode, YamlRejectedError, read_document
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
    DEFAULT_TIMEOUT_S,
    NEVER_CLOSED,
    Hook,
    compile_matcher,
    parse_event,
    parse_script_name,
)

SETTINGS = "hooks.yaml"
SCRIPTS = "hooks"

_LIMIT = 64 * 1024
_LOOKED_AT = 4_096
_INTERPRETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {".py": (sys.executable,), ".sh": ("/bin/sh",)}
)
_COMMENT = re.compile(r"\s*(?:#+|//+|--|\"{3}|'{3})\s*(.*?)\s*(?:\"{3}|'{3})?\s*")
_ELSEWHERE = ("prompt", "agent", "http", "mcp_tool")
_LONGEST_S = 24 * 60 * 60
_SYSTEM = (
    "/usr/",
    "/bin/",
    "/sbin/",
    "/lib/",
    "/lib64/",
    "/nix/",
    "/opt/homebrew/",
    "/dev/",
    "/proc/",
    "/System/",
)
_PLACE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_SIGNS = re.compile(r"[();<>|&]+")
_LINE = re.compile(r"[\s();<>|&]")


class _Command(BaseModel):
    """One hook as it is written. Texts become what they should be: all that is read is text."""

    model_config = ConfigDict(extra="allow")

    type: Literal["command"] = "command"
    command: str = Field(min_length=1)
    args: None = None
    matcher: str | None = None
    timeout_s: float = Field(DEFAULT_TIMEOUT_S, alias="timeout", gt=0)
    on_failure: Literal["continue", "block"] | None = Field(
        None, validation_alias=AliasChoices("onFailure", "on_failure")
    )
    is_async: bool = Field(False, alias="async")  # noqa: FBT003  the field's default
    shell: Literal["bash"] | None = None
    description: str | None = None


@dataclass(slots=True, kw_only=True)
class HookFile:
    """`problems`: a sentence each; `closed`: the events with a hook that cannot be started as it is
    declared, each with why; `is_off`: every hook is switched off, scripts too.
    """

    hooks: list[Hook] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)
    is_off: bool = False


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
    closed = {**scripts.closed, **settings.closed}
    return HookFile(
        hooks=settings.hooks + scripts.hooks,
        problems=problems,
        closed={name: closed[name] for name in closed.keys() & BLOCKING if name != NEVER_CLOSED},
    )


def look(home: Path) -> tuple[object, ...]:
    """What changes whenever any of them does; costs a few system calls."""
    folder = home / SCRIPTS
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  half the time, twice a second
    except OSError:
        names = []
    marks = ((name, mark_at(folder / name)) for name in names)
    return mark_at(home / SETTINGS), mark_at(folder), *marks


def _load_settings(path: Path, vault: Path, places: Mapping[str, str]) -> HookFile:
    """The content of hooks.yaml; one that is not to be read guards all that can be guarded."""
    try:
        file = read_settings(read_private(path, _LIMIT) or "", places=places)
        why = _why_in(vault, path)
    except (UntrustedFileError, YamlRejectedError) as error:
        why = str(error)
    if why is not None:
        problem = f"no hook of {SETTINGS} runs: {why}"
        return HookFile(problems=[problem], closed=dict.fromkeys(BLOCKING, problem))
    file.problems = [f"{SETTINGS} {problem}" for problem in file.problems]
    file.closed = {event: f"{SETTINGS} {why}" for event, why in file.closed.items()}
    return file


def read_settings(text: str, *, places: Mapping[str, str]) -> HookFile:
    """`places` are what `$HOME` and the like stand for, so that scripts named that way are found.
    Raises YamlRejectedError when nothing can be read.
    """
    is_json = text.lstrip("\ufeff \t\r\n").startswith("{")
    root = read_document(text.replace("\t", " ") if is_json else text)  # YAML has no tabs
    if root is None:
        return HookFile()
    if root.entries is None:
        raise YamlRejectedError("it should hold `hooks:` with a list under each event", root.line)
    reader = _Reader(places)
    for key, node in root.entries:
        reader.take(key, node)
    return reader.found


class _Reader:
    def __init__(self, places: Mapping[str, str]) -> None:
        self.found = HookFile()
        self._places = places
        self._counts: dict[str, int] = {}

    def take(self, key: str, node: YamlNode) -> None:
        if key == "hooks" and node.entries is not None:
            for name, listed in node.entries:
                self._event(name, listed)
        elif key == "hooks" and not node.is_nothing:
            self._say(node, "hooks should be events, with a list under each")
            self.found.closed.update(dict.fromkeys(BLOCKING, self.found.problems[-1]))
        elif key == "disableAllHooks" and node.text in {"true", "false"}:
            self.found.is_off = node.text == "true"
            if self.found.is_off:
                self._say(node, "disableAllHooks is true, so no hook runs")
        elif "." in key or key[:1].isupper():
            self._event(key, node)
        elif key != "hooks" and not key.startswith("$"):
            self._say(node, f"{key[:80]!r} means nothing here, or has no such value")

    def _say(self, node: YamlNode, what: str) -> None:
        self.found.problems.append(f"line {node.line}: {what}")

    def _close(self, event: str, hook: YamlNode, at: YamlNode, what: str) -> None:
        """Say what is wrong, and close the event, which this hook guards unless it is async."""
        self._say(at, what)
        if ("async", "true") not in {(key, value.text) for key, value in hook.entries or ()}:
            self.found.closed.setdefault(event, self.found.problems[-1])

    def _event(self, name: str, node: YamlNode) -> None:
        try:
            event = parse_event(name)
        except NotFoundError as error:
            self._say(node, str(error))
            return
        if node.items is None and not node.is_nothing:
            self._close(event, node, node, f"{name} should be a list, each item after a dash")
        for item in node.items or ():
            number = self._counts[name] = self._counts.get(name, -1) + 1
            entries, hook = dict(item.entries or ()), f"{name}[{number}]"
            if "hooks" not in entries:
                self._hook(hook, event, item)
            elif (listed := entries.pop("hooks")).items is None:
                self._close(event, item, item, f"{hook}: hooks should be a list")
            else:  # what a group says, such as a matcher, each of its hooks says
                for inner, part in enumerate(listed.items):
                    self._hook(f"{hook}.{inner}", event, part, entries)

    def _hook(
        self,
        name: str,
        event: str,
        node: YamlNode,
        group: Mapping[str, YamlNode] = MappingProxyType({}),
    ) -> None:
        entries = {**group, **dict(node.entries or ())}
        kind = entries["type"].text if "type" in entries else None
        if kind in _ELSEWHERE:
            self._say(entries["type"], f"{name}: hooks of the type {kind} do not run here")
            return
        values = {key: value.plain() for key, value in entries.items() if not value.is_nothing}
        try:
            written = _Command.model_validate(values)
            matches = compile_matcher(written.matcher)
        except ValidationError as error:
            for mistake in error.errors(include_input=False):
                at = entries.get(str(mistake["loc"][0]), node)
                what = f"{mistake['loc'][0]}: {mistake['msg']}"
                self._close(event, node, at, f"{name} does not run: {what}")
            return
        except ValueError as error:
            self._close(event, node, node, f"{name} does not run: {error}")
            return
        for key in written.model_extra or ():
            what = f"{key[:80]!r} means nothing here; the rest of it holds"
            self._say(entries[key], f"{name}: {what}")
        on_failure = written.on_failure
        hook = Hook(
            id=name,
            event=event,
            words=("/bin/sh", "-c", written.command),
            command=written.command,
            matcher=written.matcher,
            matches=matches,
            timeout_s=min(written.timeout_s, _LONGEST_S),
            is_async=written.is_async,
            blocks_on_failure=None if on_failure is None else on_failure == "block",
            files=tuple(dict.fromkeys(_files(written.command, self._places))),
            description=written.description,
        )
        self.found.hooks.append(hook)


def _files(command: str, places: Mapping[str, str]) -> Iterator[Path]:
    """The files that the shell's line names, but for the system's programs, which change with every
    update. A path to nothing counts: what is put there later is looked at before it runs.
    """
    for word in _words(command):
        try:
            path = Path(places.get("PARACHUTE_VAULT", "/"), _expand(word, places))
            is_file, is_there = path.is_file(), path.exists()
        except (OSError, ValueError):
            continue  # no name of a file
        if not is_file and _LINE.search(word):
            yield from _files(word, places)
        elif (is_file or ("/" in word and not is_there)) and not str(path).startswith(_SYSTEM):
            yield path


def _expand(word: str, places: Mapping[str, str]) -> str:
    """`$NAME`, `${NAME}` and a leading `~/` replaced, where known. Never for a shell."""
    spelled = _PLACE.sub(lambda match: places.get(match[1] or match[2], match[0]), word)
    is_at_home = spelled.startswith("~/") and "HOME" in places
    return f"{places['HOME']}{spelled[1:]}" if is_at_home else spelled


def _words(command: str) -> list[str]:
    """The words of a shell's line, without its signs and what it writes into (`>> log`)."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        pieces = list(lexer)
    except ValueError:
        return [piece for piece in _LINE.split(command) if piece]
    return [
        piece
        for before, piece in pairwise(["", *pieces])
        if not (_SIGNS.fullmatch(piece) or (before.endswith(">") and _SIGNS.fullmatch(before)))
    ]


def _load_scripts(folder: Path, vault: Path) -> HookFile:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  names alone are wanted
        why = why_untrusted(folder, folder.stat(), is_folder=True) or _why_in(vault, folder)
    except FileNotFoundError:
        return HookFile()
    except OSError as error:
        names, why = [SCRIPTS], f"the folder cannot be read ({error.strerror})"
    if why is not None:
        problem = f"no script in {SCRIPTS}/ runs: {why}"
        return HookFile(
            problems=[problem], closed=dict.fromkeys(BLOCKING if names else (), problem)
        )
    file = HookFile()
    for name in names:
        event = None
        try:
            event = parse_script_name(name)
            hook = None if event is None else read_script(folder / name, event, vault)
        except (ValueError, NotFoundError) as error:
            file.problems.append(f"{name} does not run: {error}")
            file.closed |= {} if event is None else {event: file.problems[-1]}
        else:
            file.hooks += [] if hook is None else [hook]
    return file


def read_script(path: Path, event: str, vault: Path) -> Hook | None:
    """The hook that the file is, None for a folder or a pipe. ValueError for a defective one. A
    Python or shell script needs no executable bit nor first line.
    """
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
    words = _script_words(path, head)
    return Hook(
        id=path.name,
        event=event,
        words=words,
        command=" ".join(words),
        files=(path,),
        source="script",
        description=_description(head),
    )


def _why_in(vault: Path, path: Path) -> str | None:
    if is_in(real_path(path), real_path(vault)):
        return f"{path} lies in the vault, and what is there is never a hook"
    return None


def _script_words(path: Path, head: bytes) -> tuple[str, ...]:
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
        match = _COMMENT.fullmatch(line)
        return match[1] or None if match else None
    return None
