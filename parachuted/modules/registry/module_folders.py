"""The folders of modules, none of them trusted: they are compared with what was approved."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from parachuted.errors import OutdatedError, UnfitError, UntrustedError
from parachuted.home_files.private import is_in
from parachuted.modules.registry.approved import ModuleRecord, parse_record
from parachuted.modules.registry.copies import ModuleTree, folder_mark, read_tree, real_folder
from parachuted.modules.registry.install import FOLDER, LITTER, FetchedModule
from parachuted.modules.registry.manifest import NAME
from parachuted.modules.registry.module_registry import Entries, ModuleRegistry

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
