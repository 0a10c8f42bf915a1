"""Reports what is wrong with notes, with the vault's `.parachute/`, and with the audit; it repairs
nothing.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from parachuted.audit.files import FOLDER, AuditFolder, ChainHeadFile
from parachuted.audit.verify import verify
from parachuted.conflict_copies import is_conflict_copy
from parachuted.errors import ParachuteError
from parachuted.home_files.vault_state import CONTROL_FOLDER
from parachuted.vault import (
    NOTE_SUFFIXES,
    Store,
    VaultIndex,
    VaultPath,
    VaultRoot,
    parse_note,
    printable,
)
from parachuted.vault.note import conflict_line
from parachuted.vault.root import read_all


@dataclass(frozen=True, slots=True, kw_only=True)
class LintWarning:
    path: str
    code: str
    message: str


_SHOWN_TO_NONE = "is a conflict marker; no agent is shown the note until it is resolved"


class VaultDoctor:
    """Looks at the notes when asked: nothing about them is kept."""

    def __init__(self, store: Store, index: VaultIndex) -> None:
        self._store, self._index = store, index

    async def check_notes(self) -> list[LintWarning]:
        return await asyncio.to_thread(
            self._check,
            sorted(path for path in self._index.paths() if path.endswith(NOTE_SUFFIXES)),
        )

    def _check(self, paths: Iterable[VaultPath]) -> list[LintWarning]:
        return [
            LintWarning(path=printable(path), code=code, message=message)
            for path in paths
            for code, message in self._problems(path)
        ]

    def _problems(self, path: VaultPath) -> list[tuple[str, str]]:
        try:
            data = self._store.read(path).data
            problems = [(problem.code, problem.message) for problem in parse_note(data).problems]
        except ParachuteError as error:
            return [("unreadable", error.message)]
        if (line := conflict_line(data)) is None:
            return problems
        marker = (
            f"line {line} is a conflict marker; no agent is shown the note until it is resolved"
        )
        return [("conflict-markers", marker), *problems]


_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LARGEST = 64 << 20
_COPY = (
    "a conflict copy of a sync program; nothing reads it, so compare it with the original and "
    "delete one"
)
_MARKER = "is a conflict marker; leave the text of one side, as git or your sync program has it"


def check_control_folder(
    root: VaultRoot, audit: AuditFolder, head: ChainHeadFile
) -> dict[str, str]:
    """What is wrong with the vault's `.parachute/`, by subject.

    Blocks on the disk, as long as reading the whole audit takes.
    """
    found: dict[str, str] = {}
    for folder in (CONTROL_FOLDER, FOLDER):
        found |= {
            f"conflict:{printable(path)}": problem for path, problem in _conflicts(root, folder)
        }
    try:
        findings = verify(audit, head).findings
    except OSError as error:
        findings = [f"it cannot be read: {error.strerror}"]
    if findings:
        more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
        found["audit"] = (
            f"the audit was changed after it was written: {findings[0]}{more}; "
            f"`parachute audit verify` lists all{_stash(root)}"
        )
    return found


def conflict_copies(paths: Iterable[str]) -> list[dict[str, str]]:
    """The conflict copies among these paths, each as a note of the doctor's."""
    message = (
        "a conflict copy, which wakes no watcher and watches nothing: take over what it "
        "has, then delete it"
    )
    return [
        {"path": printable(path), "code": "conflict-copy", "message": message}
        for path in sorted(paths)
        if is_conflict_copy(path)
    ]


def _conflicts(root: VaultRoot, folder: str) -> Iterable[tuple[str, str]]:
    try:
        with root.opened_folder(folder) as descriptor:
            for name in sorted(os.listdir(descriptor)):  # noqa: PTH208  by descriptor, which pathlib cannot
                if is_conflict_copy(name):
                    yield f"{folder}/{name}", _COPY
                elif (line := _conflict_line(descriptor, name)) is not None:
                    yield f"{folder}/{name}", f"line {line} {_MARKER}"
    except OSError:
        return  # there is none, or its reader says what is wrong with it


def _conflict_line(folder: int, name: str) -> int | None:
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return None  # a link, or gone meanwhile
    try:
        at = os.fstat(descriptor)
        is_read = stat.S_ISREG(at.st_mode) and at.st_size <= _LARGEST
        return conflict_line(read_all(descriptor)) if is_read else None
    finally:
        os.close(descriptor)


def _stash(root: VaultRoot) -> str:
    has_stash = (root.folder / ".git/refs/stash").is_file()
    return (
        ". Git has a stash, which may hold the lines: `git stash show --stat` names its files"
        if has_stash
        else ""
    )
