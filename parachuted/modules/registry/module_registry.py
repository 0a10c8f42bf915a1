"""Ledger: modules.yaml in the home, which says what was approved.

What cannot be trusted lets nothing run, and says why. People edit it too.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.home_files import (
    REMOVED,
    CannotEditError,
    Changes,
    HomeFile,
    YamlNode,
    YamlRejectedError,
    edit_document,
    new_document,
    read_document,
)
from parachuted.modules.settings import SettingValue
from parachuted.private import UntrustedFileError

NAME = "modules.yaml"
_ROOT = "modules"
_LIMIT = 64 * 1024
_CONSTANTS: Mapping[str, bool | None] = {
    "true": True,
    "false": False,
    "null": None,
    "~": None,
    "": None,
}
_NUMBER = re.compile(
    r"[-+]?(?:0|[1-9][0-9]{0,300}|(?:0|[1-9][0-9]*)?\.[0-9]+|[0-9]+\.)(?:[eE][-+]?[0-9]{1,3})?"
)

Held: TypeAlias = dict[str, dict[str, Any]]
Plain: TypeAlias = str | bool | list[str] | None


class ModuleRegistryError(ParachuteError):
    """modules.yaml cannot be trusted, so no module runs."""


class ModuleRegistry:
    """modules.yaml of one home. Calls read or write the disk, a few milliseconds at most."""

    def __init__(self, home: Path) -> None:
        self._file = HomeFile(home, NAME, limit=_LIMIT)
        self.path, self.mark = self._file.path, self._file.mark

    def load(self) -> Held:
        """The entries by name, all scalars as text but those of `config`; none when there is no
        file. Raises ModuleRegistryError.
        """
        try:
            text = self._file.read()
        except UntrustedFileError as error:
            raise ModuleRegistryError(f"no module runs: {error}") from error
        return {} if text is None else _read(text)

    def change(self, name: str, values: Mapping[str, Plain]) -> None:
        """Set those keys of that entry, which is made if need be; None takes a key away.

        Raises ModuleRegistryError, StorageFailedError.
        """

        def changes(held: Held) -> Changes:
            known = held.get(name)
            wanted = {
                key: REMOVED if value is None else value
                for key, value in values.items()
                if value is not None or key in (known or {})
            }
            if known is not None and not wanted:
                return {}
            return {(_ROOT, name): wanted} if known else {(_ROOT,): {name: wanted}}

        self._change(changes)

    def set_config(self, name: str, key: str, value: SettingValue) -> Callable[[], None]:
        """Set one key of the entry's `config:`; None takes it away, and the last one `config:` too.

        Returns what takes this back: the file is as it was, or, where it was changed meanwhile, the
        key alone. Both raise as `change`.
        """
        texts: list[str | None] = []
        former: list[SettingValue] = []

        def edited(text: str | None) -> str:
            former.append(_config_of({} if text is None else _read(text), name).get(key))
            texts[:] = [text, _edited(text, lambda held: _config_changes(held, name, key, value))]
            return str(texts[1])

        def put_back(text: str | None) -> str:
            before, after = texts
            if text == after and before is not None:
                return before
            return _edited(text, lambda held: _config_changes(held, name, key, former[0]))

        self._write(edited)
        return lambda: self._write(put_back)

    def config_lines(self, name: str) -> dict[str, int]:
        """The line of each key below the entry's `config:`, dotted; none where the file cannot be
        read.
        """
        with contextlib.suppress(UntrustedFileError, YamlRejectedError):
            text = self._file.read()
            root = read_document(text, limit=_LIMIT) if text is not None else None
            for key in (_ROOT, name, "config"):
                root = root.children.get(key) if root is not None else None
            if root is not None:
                return dict(_lines(root, ""))
        return {}

    def remove(self, name: str) -> None:
        """Take that entry away.

        Raises NotFoundError, ModuleRegistryError and StorageFailedError.
        """

        def changes(held: Held) -> Changes:
            if name not in held:
                raise NotFoundError(f"{NAME} has no module {name[:80]!r}")
            return {(_ROOT,): {name: REMOVED}}

        self._change(changes)

    def _change(self, change: Callable[[Held], Changes]) -> None:
        self._write(lambda text: _edited(text, change))

    def _write(self, edit: Callable[[str | None], str]) -> None:
        try:
            self._file.change(edit)
        except UntrustedFileError as error:
            raise ModuleRegistryError(f"no module runs: {error}") from error
        except CannotEditError as error:
            raise ModuleRegistryError(
                f"{NAME} cannot be changed: {error}; change it by hand"
            ) from error


def _edited(text: str | None, change: Callable[[Held], Changes]) -> str:
    before = new_document({_ROOT: {}}) if text is None else text
    return edit_document(before, change(_read(before)), limit=_LIMIT)


def _config_of(held: Held, name: str) -> Mapping[str, Any]:
    config = held.get(name, {}).get("config")
    return config if isinstance(config, dict) else {}


def _config_changes(held: Held, name: str, key: str, value: SettingValue) -> Changes:
    config = _config_of(held, name)
    if value is not None:
        return {(_ROOT, name, "config"): {key: value}}
    if key not in config:
        return {}
    if len(config) == 1:
        return {(_ROOT, name): {"config": REMOVED}}
    return {(_ROOT, name, "config"): {key: REMOVED}}


def _read(text: str) -> Held:
    try:
        root = read_document(text, limit=_LIMIT, is_strict=True)
    except YamlRejectedError as error:
        raise _rejected(str(error)) from error
    if root is not None and root.entries is None and not root.is_nothing:
        raise _rejected(f"it should hold `{_ROOT}:` with a name and an entry for each module")
    modules = root.children.get(_ROOT) if root is not None else None
    if modules is None or modules.is_nothing:
        return {}
    if modules.entries is None:
        raise _rejected(f"it should hold `{_ROOT}:` with a name and an entry for each module")
    return {name: _entry(name, node) for name, node in modules.entries}


def _lines(node: YamlNode, prefix: str) -> Iterator[tuple[str, int]]:
    for key, child in node.children.items():
        yield f"{prefix}{key}", child.line
        yield from _lines(child, f"{prefix}{key}.")


def _entry(name: str, node: YamlNode) -> dict[str, Any]:
    if node.entries is None and not node.is_nothing:
        raise _rejected(f"the entry of {name[:80]!r} should be a mapping")
    return {
        key: _value(value, _constant if key == "config" else str)
        for key, value in node.entries or ()
    }


def _value(node: YamlNode, convert: Callable[[str], object]) -> Any:  # noqa: ANN401  of any shape
    """The node's value; `convert` makes one of each scalar without quotes."""
    if node.entries is not None:
        return {key: _value(value, convert) for key, value in node.entries}
    if node.items is not None:
        return [_value(item, convert) for item in node.items]
    return node.text if node.word is None else convert(node.word)


def _constant(word: str) -> object:
    """What JSON has for the word; a date is a text."""
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if not _NUMBER.fullmatch(word):
        return word
    number = float(word)
    if re.fullmatch(r"[-+]?[0-9]+", word):
        return int(word)
    return number if math.isfinite(number) else word


def _rejected(why: str) -> ModuleRegistryError:
    return ModuleRegistryError(f"no module runs: {NAME} cannot be understood: {why}")
