"""Settings: hooks.yaml read as hooks, with every mistake and its line; the others go on working.

Under each event stands a list of hooks (our shape), or of groups with a matcher and hooks (Claude
Code's, whose whole settings file may be pasted). An unknown key does not disarm its hook.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from parachuted.errors import NotFoundError
from parachuted.home_files import YamlNode, YamlRejectedError, read_document
from parachuted.hooks.hook import (
    BLOCKING,
    DEFAULT_TIMEOUT_S,
    Hook,
    parse_event,
)
from parachuted.hooks.matching import compile_hook

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
_USER_CONFIG = "${user_config."
_PLACE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_SIGNS = re.compile(r"[();<>|&]+")
_LINE = re.compile(r"[\s();<>|&]")


class _Command(BaseModel):
    """One hook as it is written. Texts become what they should be: all that is read is text."""

    model_config = ConfigDict(extra="allow")

    type: Literal["command"] = "command"
    command: str = Field(min_length=1)
    args: list[str] | None = None
    matcher: str | None = None
    timeout_s: float = Field(DEFAULT_TIMEOUT_S, alias="timeout", gt=0)
    on_failure: Literal["continue", "block"] | None = Field(
        None, validation_alias=AliasChoices("onFailure", "on_failure")
    )
    is_async: bool = Field(False, alias="async")  # noqa: FBT003  the field's default
    shell: Literal["bash"] | None = None
    description: str | None = None
    status: str | None = Field(None, alias="statusMessage")


@dataclass(slots=True, kw_only=True)
class HookFile:
    """`problems`: a sentence each; `closed`: the events with a hook that cannot be started as it is
    declared, each with why; `is_off`: every hook is switched off, scripts too.
    """

    hooks: list[Hook] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)
    is_off: bool = False


def read_settings(text: str, *, places: Mapping[str, str]) -> HookFile:
    """`places` are what `$HOME` and the like stand for, so that scripts named that way are found.
    Raises YamlRejectedError when nothing can be read.
    """
    root = read_document(_json_as_yaml(text))
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
        elif key == "disableAllHooks":
            self.found.is_off = node.text == "true"
            if node.text != "false":
                is_off = (
                    "is true, so no hook runs" if self.found.is_off else "should be true or false"
                )
                self._say(node, f"disableAllHooks {is_off}")
        elif "." in key or key[:1].isupper():
            self._event(key, node)
        elif key != "hooks" and not key.startswith("$"):
            self._say(node, f"{key[:80]!r} means nothing here")

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
            self._close(
                event, node, node, f"{name} should be a list: each of its hooks begins with a dash"
            )
        for item in node.items or ():
            number = self._counts[name] = self._counts.get(name, -1) + 1
            self._item(f"{name}[{number}]", event, item)

    def _item(self, name: str, event: str, node: YamlNode) -> None:
        entries = dict(node.entries or ())
        if "hooks" not in entries:
            self._hook(name, event, node)
            return
        for key in entries.keys() - {"hooks", "matcher"}:
            self._say(entries[key], f"{name}: {key[:80]!r} means nothing in a group")
        matcher, listed = entries.get("matcher"), entries["hooks"]
        is_text = matcher is None or matcher.text is not None or matcher.is_nothing
        if not is_text or listed.items is None:
            self._close(event, node, node, f"{name}: matcher should be a text, and hooks a list")
            return
        for number, item in enumerate(listed.items):
            of_group = (("matcher", matcher),) if matcher is not None else ()
            own = tuple((key, value) for key, value in item.entries or () if key != "matcher")
            if len(own) < len(item.entries or ()):
                self._say(item, f"{name}.{number}: the matcher of its group counts, not its own")
            hook = item if item.entries is None else replace(item, entries=(*own, *of_group))
            self._hook(f"{name}.{number}", event, hook)

    def _hook(self, name: str, event: str, node: YamlNode) -> None:
        if node.entries is None:
            self._close(
                event, node, node, f"{name} should be a hook, with `type: command` and a command"
            )
            return
        entries = {key: value for key, value in node.entries if not value.is_nothing}
        if len(dict(node.entries)) < len(node.entries):
            self._say(node, f"{name} has a key twice, of which the last counts")
        kind = entries["type"].text if "type" in entries else None
        if kind in _ELSEWHERE:
            self._say(entries["type"], f"{name}: hooks of the type {kind} do not run here")
            return
        try:
            written = _Command.model_validate(
                {key: value.plain() for key, value in entries.items()}
            )
        except ValidationError as error:
            for mistake in error.errors(include_input=False):
                at = str(mistake["loc"][0])
                what = mistake["msg"].replace("Input should", "should")
                self._close(
                    event, node, entries.get(at, node), f"{name}: {at}: {what}; it does not run"
                )
            return
        for key in written.model_extra or ():
            self._say(
                entries[key], f"{name}: {key[:80]!r} means nothing here; the rest of it holds"
            )
        self._add(name, event, node, written)

    def _add(self, name: str, event: str, node: YamlNode, written: _Command) -> None:
        if written.args is None and _USER_CONFIG in written.command:
            what = f"{name}: {_USER_CONFIG}...}} in a line for the shell would be run as code"
            self._close(event, node, node, f"{what}; give it in args. It does not run")
            return
        places = {**self._places, "PARACHUTE_EVENT": event}
        words = [] if written.args is None else [written.command, *written.args]
        hook = Hook(
            id=name,
            event=event,
            command=written.command if written.args is None else None,
            argv=tuple(_expand(word, places) for word in words),
            matcher=written.matcher,
            timeout_s=min(written.timeout_s, _LONGEST_S),
            is_async=written.is_async,
            blocks_on_failure=None if written.on_failure is None else written.on_failure == "block",
            files=tuple(dict.fromkeys(_files(written, self._places))),
            description=written.description or written.status,
        )
        try:
            compile_hook(hook)
        except ValueError as error:
            self._close(event, node, node, f"{name} never runs: {error}")
        self.found.hooks.append(hook)


def _files(written: _Command, places: Mapping[str, str]) -> Iterator[Path]:
    words = _words(written.command) if written.args is None else [written.command, *written.args]
    for word in words:
        yield from _named(word, places)


def _named(word: str, places: Mapping[str, str]) -> Iterator[Path]:
    """The files that the word, or the shell's line, names, but for the system's programs, which
    change with every update. A path to nothing counts: what is put there later is looked at before
    it runs.
    """
    try:
        path = Path(places.get("PARACHUTE_VAULT", "/"), _expand(word, places))
        is_file, is_there = path.is_file(), path.exists()
    except (OSError, ValueError):
        return  # no name of a file
    if not is_file and _LINE.search(word):
        for piece in _words(word):
            yield from _named(piece, places)
    elif (is_file or ("/" in word and not is_there)) and not str(path).startswith(_SYSTEM):
        yield path


def _expand(word: str, places: Mapping[str, str]) -> str:
    """`$NAME`, `${NAME}` and a leading `~/` replaced, where known. Never for a shell."""
    spelled = _PLACE.sub(lambda found: places.get(found[1] or found[2], found[0]), word)
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


def _json_as_yaml(text: str) -> str:
    """JSON with its strings in YAML's spelling and no tabs; any other text as it is."""
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return text
    try:
        json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return text  # braces are YAML too
    return re.sub(
        r'"(?:[^"\\\n]|\\.)*"',
        lambda found: json.dumps(json.loads(found[0]), ensure_ascii=False),
        text,
    ).replace("\t", " ")
