"""The folders in which modules lie.

Nothing here is trusted: what is found is compared with what was approved, or copied and approved.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection
from pathlib import Path

from parachuted.home_files.private import is_in
from parachuted.modules.registry.approved import ApprovalRefusedError
from parachuted.modules.registry.copies import ModuleTree, TreeRefusedError, folder_mark, read_tree
from parachuted.modules.registry.install import FOLDER, LITTER, FetchedModule, without_ref
from parachuted.modules.registry.manifest import NAME
from parachuted.modules.registry.module_registry import (
    Held,
    ModuleRecord,
    ModuleRegistry,
    ModuleRegistryError,
    parse_record,
)

_OTHERS_MAY_WRITE = 0o022
_FILES_EVERY_S = 5.0  # a stat of each file each second is most of what an idle daemon does


class ModuleFolders:
    """Reads the folders of the vault's `Modules/` and those under development."""

    def __init__(self, home: Path, vault: Path, registry: ModuleRegistry) -> None:
        self._home, self._vault, self._registry = home, vault, registry
        self._read: dict[Path, tuple[int, ModuleTree | None, str | None]] = {}
        self._marks: dict[str, tuple[object, int]] | None = None
        self._files_due_at = self._changed_at = time.monotonic()
        self._entries: tuple[object, Held] = object(), {}

    def names(self) -> set[str]:
        """The names of folders in the vault's `Modules/`, and of links there, which are refused."""
        with contextlib.suppress(OSError):
            if (self._vault / FOLDER).is_symlink():
                return set()
            with os.scandir(self._vault / FOLDER) as found:
                return {
                    entry.name
                    for entry in found
                    if NAME.fullmatch(entry.name) and not entry.is_file(follow_symlinks=False)
                }
        return set()

    def look(self) -> frozenset[str]:
        """The names of modules whose folder changed since the last call, and all names when
        modules.yaml was written; the first call returns none. One stat a file, but of files that
        were looked at a moment ago.

        An entry that was changed and changed back counts: who compared in between saw the other.
        """
        mark = self._registry.mark()
        if self._entries[0] != mark:
            self._entries = mark, {}
            with contextlib.suppress(ModuleRegistryError):
                self._entries = mark, self._registry.load()
        entries, marks = self._entries[1], dict[str, tuple[object, int]]()
        before = self._marks
        same = {} if before is None or self._files_are_due() else before
        for name in {*entries, *self.names()}:
            if name in same and same[name][0] == mark:
                marks[name] = same[name]
                continue
            marks[name] = mark, 0
            with contextlib.suppress(ValueError):
                marks[name] = mark, self._mark(parse_record(name, entries.get(name, {})))
        self._marks = marks
        if before is None:
            return frozenset()
        changed = frozenset(
            name for name in marks.keys() | before.keys() if marks.get(name) != before.get(name)
        )
        self._changed_at = time.monotonic() if changed else self._changed_at
        return changed

    def _files_are_due(self) -> bool:
        """The longer no file has changed, the less often they are looked at."""
        now = time.monotonic()
        if now < self._files_due_at:
            return False
        self._files_due_at = now + min(_FILES_EVERY_S, (now - self._changed_at) / 10)
        return True

    def tree(self, record: ModuleRecord) -> tuple[ModuleTree | None, str | None]:
        """What its folder holds, or why that cannot be said.

        Read again when a stat shows a change; nothing is approved by it.
        """
        folder, mark = record.folder(self._vault), self._mark(record)
        cached = self._read.get(folder)
        if cached is None or cached[0] != mark:
            try:
                self.check_place(record)
                cached = mark, read_tree(folder, ignored=ignored_in(record)), None
            except TreeRefusedError as error:
                cached = mark, None, error.message
            self._read[folder] = cached
        return cached[1], cached[2]

    def check_place(self, record: ModuleRecord) -> None:
        folder = record.folder(self._vault)
        if record.is_dev and self._touches_vault(folder.resolve()):
            raise TreeRefusedError(
                f"{folder} is a link, or in the vault: a module under development is kept elsewhere"
            )

    def is_as_installed(self, record: ModuleRecord) -> bool:
        """Ignores files that a system or Python leaves in a folder."""
        if record.installed is None:
            return False
        with contextlib.suppress(TreeRefusedError):
            folder = record.folder(self._vault)
            return read_tree(folder, ignored=LITTER).digest == record.installed
        return False

    def may_replace(self, found: FetchedModule, record: ModuleRecord | None, name: str) -> bool:
        """Whether nothing of the vault's folder would be lost: it is what was installed, or what is
        about to be. Raises ApprovalRefusedError where something would.
        """
        if record is None:
            with contextlib.suppress(TreeRefusedError):
                folders = (found.folder, self._vault / FOLDER / name)
                return len({read_tree(folder, ignored=LITTER).digest for folder in folders}) == 1
            return False
        if record.is_dev or without_ref(record.source) != without_ref(found.source):
            raise ApprovalRefusedError(
                f"there is a module {name} from {record.source} already; remove it first"
            )
        if record.installed is None:
            return False
        if record.folder(self._vault).exists() and not self.is_as_installed(record):
            # what a person wrote there is nowhere else
            raise ApprovalRefusedError(
                f"{record.path} is not as it was installed, and what was changed there would "
                "be lost; move it away, then install again"
            )
        return True

    def check_dev(self, folder: Path, name: str, record: ModuleRecord | None) -> None:
        if record is not None and (not record.is_dev or record.path != str(folder)):
            raise ApprovalRefusedError(
                f"there is a module {name} at {record.path} already; remove it first"
            )
        if self._touches_vault(folder):
            raise ApprovalRefusedError(
                "a module under development cannot be in the vault, where others may change it: "
                "keep it elsewhere"
            )
        if folder.stat().st_mode & _OTHERS_MAY_WRITE:
            raise ApprovalRefusedError(
                f"others may write to {folder}, so it cannot be under development; `chmod go-w` "
                "on it mends that"
            )

    def _touches_vault(self, folder: Path) -> bool:
        return any(
            is_in(folder, other) or is_in(other, folder) for other in (self._vault, self._home)
        )

    def _mark(self, record: ModuleRecord) -> int:
        return folder_mark(record.folder(self._vault), ignored_in(record))


def ignored_in(record: ModuleRecord) -> Collection[str]:
    """The names that are no part of the module: of one under development, what tools leave."""
    return LITTER if record.is_dev else ()
