"""modules.yaml in the home, which says what was approved, and its entries.

What cannot be trusted lets nothing run, and says why. People edit it too.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

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
from parachuted.home_files.private import UntrustedFileError
from parachuted.modules.checks import matching, mistakes_in
from parachuted.modules.registry.approved import TrustLevel
from parachuted.modules.registry.manifest import NAME
from parachuted.modules.settings import SettingValue
from parachuted.visible import visible

_KEPT = frozenset({"config", "agents"})
_FOLDER = "Modules"
_OURS = "text that parachuted writes there; approve the module again"
_Digest = Annotated[str, matching(re.compile(r"sha256:[0-9a-f]{64}"), _OURS)]
_Environment = Annotated[str, matching(re.compile(r"venv-[0-9a-f]{8}"), _OURS)]


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="ignore"))
class ModuleRecord:
    """What modules.yaml says of one module.

    `installed` is the digest of what `install` put into the vault.
    """

    name: str
    path: str = ""
    enabled: bool = False
    source: str = "local"
    version: str = ""
    trust: TrustLevel = "untrusted"
    hash: _Digest | None = None
    tree: _Digest | None = None
    environment: _Environment | None = None
    signature: str | None = None
    installed: _Digest | None = None
    commit: str | None = None
    is_dev: bool = Field(default=False, validation_alias="dev")
    problem: str | None = None
    agents: Mapping[str, Any] = Field(default_factory=dict)
    config: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def is_approved(self) -> bool:
        return self.hash is not None and self.tree is not None

    def folder(self, vault: Path) -> Path:
        return Path(self.path) if self.is_dev else vault / self.path


_RECORD = TypeAdapter(ModuleRecord)


def parse_record(name: str, entry: Mapping[str, Any]) -> ModuleRecord:
    """Understand an entry; without one, that of a folder that modules.yaml does not know.

    Raises ValueError, in words.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"{visible(name)[:80]!r} is not a module's name")
    written = {key: value for key, value in entry.items() if value not in ("", None)}
    try:
        record = _RECORD.validate_python({"path": f"{_FOLDER}/{name}", **written, "name": name})
    except ValidationError as error:
        raise ValueError(
            "; ".join(f"`{where}`: {says}" for where, says in mistakes_in(error))
        ) from error
    path = PurePosixPath(record.path)
    is_wrong = "\0" in record.path or ".." in path.parts or not path.name
    if is_wrong or path.is_absolute() != record.is_dev:
        where = (
            "an absolute path, for it is under development (`dev`)"
            if record.is_dev
            else f"a folder of the vault such as {_FOLDER}/my-module"
        )
        raise ValueError(f"`path` should be {where}")
    return record


def is_module(entry: Mapping[str, Any]) -> bool:
    """Whether the entry is of a module: what a person wrote for one, before it comes or after it is
    removed, makes none.
    """
    return not entry.keys() <= _KEPT


def without_module(entry: Mapping[str, Any]) -> dict[str, None]:
    """The change of an entry that leaves in it what a person wrote for the module."""
    return dict.fromkeys(entry.keys() - _KEPT)


_FILE = "modules.yaml"
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
        self._file = HomeFile(home, _FILE, limit=_LIMIT)
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
                raise NotFoundError(f"{_FILE} has no module {name[:80]!r}")
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
                f"{_FILE} cannot be changed: {error}; change it by hand"
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
    return ModuleRegistryError(f"no module runs: {_FILE} cannot be understood: {why}")
