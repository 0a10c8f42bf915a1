"""modules.yaml in the home, which says what was approved. People edit it too. What cannot be
trusted lets nothing run, and says why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from parachuted.errors import UntrustedError
from parachuted.home_files import (
    REMOVED,
    Changes,
    HomeFile,
    YamlNode,
    YamlRejectedError,
    edit_document,
    new_document,
    read_document,
)
from parachuted.home_files.private import UntrustedFileError
from parachuted.modules.settings import SettingValue

_FILE, _ROOT, _LIMIT = "modules.yaml", "modules", 64 * 1024
_OF_PERSON = frozenset({"config", "agents"})

Entries: TypeAlias = dict[str, dict[str, Any]]
Plain: TypeAlias = str | bool | list[str] | None


def is_module(entry: Mapping[str, Any]) -> bool:
    """What a person wrote before a module comes, or after it went, makes none."""
    return not entry.keys() <= _OF_PERSON


class ModuleRegistry:
    """Calls block on the disk. All raise UntrustedError; those that write, StorageFailedError."""

    def __init__(self, home: Path) -> None:
        self._file = HomeFile(home, _FILE, limit=_LIMIT)
        self.path, self.mark = self._file.path, self._file.mark

    def load(self) -> Entries:
        """The entries by name, all scalars as text but those of `config`."""
        try:
            text = self._file.read()
        except UntrustedFileError as error:
            raise UntrustedError(f"no module runs: {error}") from error
        return {} if text is None else _read(text)

    def change(self, name: str, values: Mapping[str, Plain]) -> None:
        """Set those keys of that entry, which is made if need be; None takes a key away."""
        wanted = {key: REMOVED if value is None else value for key, value in values.items()}
        self._change(lambda _held: {(_ROOT, name): wanted})

    def set_config(self, name: str, key: str, value: SettingValue) -> SettingValue:
        """Set a key of `config:`, where None takes it away. Returns the former value."""
        former: list[SettingValue] = []

        def changes(entries: Entries) -> Changes:
            config = entries.get(name, {}).get("config")
            config = config if isinstance(config, dict) else {}
            former[:] = [config.get(key)]
            if value is None and config.keys() <= {key}:
                return {(_ROOT, name): {"config": REMOVED}}
            return {(_ROOT, name, "config"): {key: REMOVED if value is None else value}}

        self._change(changes)
        return former[0]

    def forget(self, name: str) -> None:
        """Take away its entry, but for what a person wrote in it for the module."""

        def changes(entries: Entries) -> Changes:
            entry = entries.get(name, {})
            if entry.keys() & _OF_PERSON:
                return {(_ROOT, name): dict.fromkeys(entry.keys() - _OF_PERSON, REMOVED)}
            return {(_ROOT,): {name: REMOVED}}

        self._change(changes)

    def _change(self, change: Callable[[Entries], Changes]) -> None:
        def edited(text: str | None) -> str:
            before = new_document({_ROOT: {}}) if text is None else text
            return edit_document(before, change(_read(before)), limit=_LIMIT)

        try:
            self._file.change(edited)
        except UntrustedFileError as error:
            raise UntrustedError(f"no module runs: {error}") from error
        except YamlRejectedError as error:
            raise UntrustedError(
                f"{_FILE} cannot be changed: {error}; change it by hand"
            ) from error


def _read(text: str) -> Entries:
    try:
        root = read_document(text, limit=_LIMIT, is_strict=True)
    except YamlRejectedError as error:
        raise _rejected(str(error)) from error
    modules = root.children.get(_ROOT) if root is not None else None
    for node in (root, modules):
        if node is not None and node.entries is None and not node.is_nothing:
            raise _rejected(f"it should hold `{_ROOT}:` with a name and an entry for each module")
    entries = modules.entries if modules is not None else None
    for name, entry in entries or ():
        if entry.entries is None and not entry.is_nothing:
            raise _rejected(f"the entry of {name[:80]!r} should be a mapping")
    return {
        name: {
            key: _typed(value) if key == "config" else value.plain()
            for key, value in entry.entries or ()
        }
        for name, entry in entries or ()
    }


def _typed(node: YamlNode) -> Any:  # noqa: ANN401  of any shape
    """The node's value, with what JSON has for each scalar without quotes."""
    if node.entries is not None:
        return {key: _typed(value) for key, value in node.entries}
    if node.items is not None:
        return [_typed(item) for item in node.items]
    if node.word is None:
        return node.text
    if node.word in {"", "~"}:
        return None
    try:
        found: object = json.loads(node.word, parse_constant=str)
    except (ValueError, RecursionError):
        return node.word
    return node.word if isinstance(found, float) and not math.isfinite(found) else found


def _rejected(why: str) -> UntrustedError:
    return UntrustedError(f"no module runs: {_FILE} cannot be understood: {why}")
