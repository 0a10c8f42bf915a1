"""What a sync program or git left behind in a vault, and whether the audit is intact. It
repairs nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from parachuted.audit.files import FOLDER, AuditFolder, ChainHeadFile
from parachuted.audit.verify import verify
from parachuted.vault import VaultRoot, printable
from parachuted.vault.conflicts import conflict_line, is_conflict_copy
from parachuted.vault.root import read_all
from parachuted.vault_state import CONTROL_FOLDER

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LARGEST = 64 << 20


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
            f"the audit is not as it was written: {findings[0]}{more}; `parachute audit verify` "
            f"lists all{_stash(root)}"
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
                path = f"{folder}/{name}"
                line = _conflict_line(descriptor, name)
                if is_conflict_copy(name):
                    yield (
                        path,
                        (
                            "a conflict copy of a sync program; nothing reads it, so compare it "
                            "with "
                            "the original and delete one"
                        ),
                    )
                elif line is not None:
                    yield (
                        path,
                        (
                            f"line {line} is a conflict marker; leave the text of one side, as "
                            "git or "
                            "your sync program has it"
                        ),
                    )
    except OSError:
        return  # there is none, or its reader says what is wrong with it


def _conflict_line(folder: int, name: str) -> int | None:
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return None  # a link, or gone meanwhile
    try:
        at = os.fstat(descriptor)
        return (
            conflict_line(read_all(descriptor))
            if stat.S_ISREG(at.st_mode) and at.st_size <= _LARGEST
            else None
        )
    finally:
        os.close(descriptor)


def _stash(root: VaultRoot) -> str:
    """What git may have done with lines that are missing."""
    has_stash = (root.folder / ".git/refs/stash").is_file()
    return (
        ". Git has a stash, which may hold the lines: `git stash show --stat` names its files"
        if has_stash
        else ""
    )
