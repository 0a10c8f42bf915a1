"""modules.yaml in the home, which says what was approved, and the folders of modules, none of them
trusted. People edit both. What cannot be trusted lets nothing run, and says why.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from parachuted.errors import OutdatedError, UnfitError, UntrustedError
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
from parachuted.home_files.private import UntrustedFileError, is_in
from parachuted.modules.registry.approved import ModuleRecord, parse_record
from parachuted.modules.registry.copies import ModuleTree, folder_mark, read_tree, real_folder
from parachuted.modules.registry.install import FOLDER, LITTER, FetchedModule
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


_OTHERS_MAY_WRITE = 0o022
_FILES_EVERY_S = 5.0  # a stat of each file each second is most of what an idle daemon does


class ModuleFolders:
    def __init__(self, home: Path, vault: Path, registry: ModuleRegistry) -> None:
        self._home, self._vault, self._registry = home, vault, registry
        self._marks: dict[str, object] | None = None
        self._files_due_at = self._changed_at = time.monotonic()
        self._entries: tuple[object, Entries] = object(), {}

    def names(self) -> set[str]:
        """Those in the vault's `Modules/`, with links there, which are refused."""
        with contextlib.suppress(OSError):
            if not (self._vault / FOLDER).is_symlink():
                with os.scandir(self._vault / FOLDER) as found:
                    return {
                        entry.name
                        for entry in found
                        if NAME.fullmatch(entry.name) and not entry.is_file(follow_symlinks=False)
                    }
        return set()

    def look(self) -> frozenset[str]:
        """The names of modules whose folder changed since the last call, and all names when
        modules.yaml was written: an entry that was changed and changed back counts, for who
        compared in between saw the other. The longer none has changed, the less often each file is
        looked at.
        """
        now, mark, before = time.monotonic(), self._registry.mark(), self._marks
        is_written = self._entries[0] != mark
        if before is not None and not is_written and now < self._files_due_at:
            return frozenset()
        self._files_due_at = now + min(_FILES_EVERY_S, (now - self._changed_at) / 10)
        if is_written:
            self._entries = mark, {}
            with contextlib.suppress(UntrustedError):
                self._entries = mark, self._registry.load()
        entries = self._entries[1]
        marks = self._marks = {
            name: (mark, self._mark(name, entries.get(name, {})))
            for name in {*entries, *self.names()}
        }
        if before is None:
            return frozenset()
        changed = {
            name for name in marks.keys() | before.keys() if marks.get(name) != before.get(name)
        }
        self._changed_at = now if changed else self._changed_at
        return frozenset(changed)

    def _mark(self, name: str, entry: Mapping[str, object]) -> int:
        with contextlib.suppress(ValueError):
            record = parse_record(name, entry)
            return folder_mark(record.folder(self._vault), record.ignored)
        return 0

    def tree(self, record: ModuleRecord) -> tuple[ModuleTree | None, str | None]:
        """What its folder holds, or why that cannot be said. Nothing is approved by it."""
        try:
            self.check_place(record)
            return read_tree(record.folder(self._vault), ignored=record.ignored), None
        except UnfitError as error:
            return None, error.message

    def check_place(self, record: ModuleRecord) -> None:
        folder = record.folder(self._vault)
        if record.is_dev and self._touches_vault(real_folder(folder)):
            raise UnfitError(
                f"{folder} is a link, or in the vault: a module under development is kept elsewhere"
            )

    def is_as_installed(self, record: ModuleRecord) -> bool:
        return record.installed is not None and record.installed == self._digest(record.path)

    def may_replace(self, found: FetchedModule, record: ModuleRecord | None, name: str) -> bool:
        """Whether it holds what was installed, or is about to be. Raises OutdatedError."""
        if record is None:
            present = self._digest(f"{FOLDER}/{name}")
            return present is not None and present == self._digest(found.folder)
        is_there = record.folder(self._vault).exists()
        if record.installed and is_there and not self.is_as_installed(record):
            # what a person wrote there is nowhere else
            raise OutdatedError(
                f"{record.path} is not as it was installed, and what was changed there would "
                "be lost; move it away, then install again"
            )
        return record.installed is not None

    def check_dev(self, folder: Path) -> None:
        """Raises OutdatedError for a folder that may not be under development."""
        if self._touches_vault(folder):
            raise OutdatedError(
                "a module under development cannot be in the vault, where others may change it: "
                "keep it elsewhere"
            )
        if folder.stat().st_mode & _OTHERS_MAY_WRITE:
            raise OutdatedError(
                f"others may write to {folder}, so it cannot be under development; `chmod go-w` "
                "on it mends that"
            )

    def _digest(self, folder: str | Path) -> str | None:
        with contextlib.suppress(UnfitError):
            return read_tree(self._vault / folder, ignored=LITTER).digest
        return None

    def _touches_vault(self, folder: Path) -> bool:
        return any(
            is_in(folder, other) or is_in(other, folder) for other in (self._vault, self._home)
        )
