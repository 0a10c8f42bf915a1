"""modules.yaml in the home, which says what was approved, and the folders of modules, none of them
trusted. People edit both. What cannot be trusted lets nothing run, and says why.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
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
from parachuted.modules.registry.install import FOLDER
from parachuted.modules.registry.manifest import NAME
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
        self._write({(_ROOT, name): wanted})

    def set_config(self, name: str, key: str, value: SettingValue) -> SettingValue:
        """Set a key of `config:`, where None takes it away. Returns the former value."""
        config = self.load().get(name, {}).get("config") or {}
        if value is None and config.keys() <= {key}:
            self.change(name, {"config": None})
        else:
            wanted = {key: REMOVED if value is None else value}
            self._write({(_ROOT, name, "config"): wanted})
        former: SettingValue = config.get(key)
        return former

    def forget(self, name: str) -> None:
        """Take away its entry, but for what a person wrote in it for the module."""
        keys = self.load().get(name, {}).keys()
        if keys & _OF_PERSON:
            self.change(name, dict.fromkeys(keys - _OF_PERSON))
        else:
            self._write({(_ROOT,): {name: REMOVED}})

    def _write(self, changes: Changes) -> None:
        def edited(text: str | None) -> str:
            before = new_document({_ROOT: {}}) if text is None else text
            _read(before)
            return edit_document(before, changes, limit=_LIMIT)

        try:
            self._file.change(edited)
        except (UntrustedFileError, YamlRejectedError) as error:
            raise UntrustedError(
                f"{_FILE} cannot be changed: {error}; change it by hand"
            ) from error


def _read(text: str) -> Entries:
    """Raises UntrustedError."""
    try:
        root = read_document(text, limit=_LIMIT, is_strict=True)
        modules = _mapping(root).get(_ROOT)
        return {
            name: {
                key: _typed(value) if key == "config" else value.plain()
                for key, value in _mapping(entry).items()
            }
            for name, entry in _mapping(modules).items()
        }
    except YamlRejectedError as error:
        raise UntrustedError(f"no module runs: {_FILE} cannot be understood: {error}") from error


def _mapping(node: YamlNode | None) -> Mapping[str, YamlNode]:
    if node is None or node.is_nothing:
        return {}
    if node.entries is None:
        raise YamlRejectedError(
            f"it should hold `{_ROOT}:` with a name and an entry for each module", node.line
        )
    return dict(node.entries)


def _typed(node: YamlNode) -> Any:  # noqa: ANN401  of any shape
    """The node's value, with what JSON has for each scalar without quotes."""
    if node.entries is not None:
        return {key: _typed(value) for key, value in node.entries}
    if node.items is not None:
        return [_typed(item) for item in node.items]
    if node.word is None or node.text is None:
        return node.text
    with contextlib.suppress(ValueError):
        return json.loads(node.word, parse_constant=str)
    return node.word


def folder_names(vault: Path) -> set[str]:
    """Of the modules in the vault's `Modules/`, with links there, which are refused."""
    with contextlib.suppress(OSError):
        places = [place for place in (vault / FOLDER).iterdir() if NAME.fullmatch(place.name)]
        return {place.name for place in places if place.is_dir()}
    return set()
