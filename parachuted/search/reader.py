"""Reader: reads notes from the vault for the index."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from hashlib import sha256

from parachuted.search.indexed_note import (
    KEPT_OF_LARGE,
    LARGEST,
    IndexedNote,
    make_indexed_note,
    make_large_note,
    make_unread_note,
)
from parachuted.vault import VaultRoot
from parachuted.vault.root import let_go
from parachuted.vault.scan_findings import GONE

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 20


class NoteReader:
    """Reads each folder's notes through one descriptor."""

    def __init__(self, root: VaultRoot) -> None:
        self._root = root

    def indexed_notes(self, paths: Iterable[str]) -> Iterator[tuple[str, IndexedNote | None]]:
        """Each path with its card, None where there is no such file any more; folder by folder.

        OSError when the vault is not there.
        """
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
        for folder, below in folders.items():
            try:
                with self._root.opened_folder(folder) as descriptor:
                    for path in below:
                        yield path, _read_note(path, descriptor)
            except OSError as error:
                if error.errno == errno.ESTALE:
                    raise
                yield from (
                    (path, None if error.errno in GONE else _unread(path, error)) for path in below
                )


def _read_note(path: str, folder: int) -> IndexedNote | None:
    try:
        descriptor = os.open(path.rpartition("/")[2], _FILE, dir_fd=folder)
    except OSError as error:
        return None if error.errno in GONE else _unread(path, error)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        return _read(path, descriptor, status)
    except OSError as error:
        return _unread(path, error)
    finally:
        let_go(descriptor)


def _read(path: str, descriptor: int, status: os.stat_result) -> IndexedNote:
    modified = status.st_mtime_ns / 1e9
    data = os.read(descriptor, min(status.st_size + 1, _CHUNK))
    if len(data) <= status.st_size < _CHUNK:
        return make_indexed_note(path, data, modified)
    parts, size, digest = [data], len(data), sha256(data)
    while part := os.read(descriptor, _CHUNK):
        digest.update(part)
        size += len(part)
        if size <= LARGEST:
            parts.append(part)
    if size > LARGEST:
        return make_large_note(
            path, b"".join(parts)[:KEPT_OF_LARGE], modified, size, digest.hexdigest()
        )
    return make_indexed_note(path, b"".join(parts), modified)


def _unread(path: str, error: OSError) -> IndexedNote:
    reason = (
        f"it cannot be read ({os.strerror(error.errno or errno.EIO)}); it is found by its name only"
    )
    return make_unread_note(path, 0.0, 0, "", reason)
