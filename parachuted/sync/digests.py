"""Digests: those of files that are not notes, which the index does not read; each is computed on
demand and cached.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeAlias

from parachuted.errors import PathRefusedError
from parachuted.vault import IndexEntry, VaultPath, VaultRoot, digest_of_open

_MOST = 50_000
_TICK_NS = 20_000_000
_State: TypeAlias = tuple[int, int, int]


class FileDigests:
    """Digests by path, each with the state of the file that it was read in.

    `learn` and `digest` are for threads.
    """

    def __init__(self, root: VaultRoot, most: int = _MOST) -> None:
        """`most`: how many are kept; the ones learnt longest ago go first."""
        self._root, self._most = root, most
        self._known: OrderedDict[str, tuple[_State, str]] = OrderedDict()

    def known(self, path: str, entry: IndexEntry) -> str | None:
        """The digest of the file in that state, if it was read in it."""
        found = self._known.get(path)
        return (
            found[1]
            if found is not None and found[0] == (entry.mtime_ns, entry.size, entry.inode)
            else None
        )

    def learn(self, paths: Iterable[str]) -> dict[str, str]:
        """Read these files; returns the digests of those that can be read. Blocks on the disk."""
        found = {}
        for path in paths:
            with (
                contextlib.suppress(OSError, PathRefusedError),
                self._root.opened_file(VaultPath.parse(path)) as descriptor,
            ):
                found[path] = self.digest(VaultPath(path), descriptor)
        return found

    def digest(self, path: VaultPath, descriptor: int) -> str:
        """The digest of an open file, read if it is not known in that state.

        OSError. Blocks on the disk.

        It is kept unless the file changed while it was read, or a moment before.
        """
        state = _state(os.fstat(descriptor))
        found = self._known.get(path)
        if found is not None and found[0] == state:
            return found[1]
        digest = digest_of_open(descriptor)
        status = os.fstat(descriptor)
        if _state(status) == state and not _is_fresh(status):
            self._keep(path, state, digest)
        return digest

    def _keep(self, path: str, state: _State, digest: str) -> None:
        self._known[path] = (state, digest)
        self._known.move_to_end(path)
        while len(self._known) > self._most:
            self._known.popitem(last=False)


def _state(status: os.stat_result) -> _State:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _is_fresh(status: os.stat_result) -> bool:
    """Whether a second write in the same tick of the clock could still come and not show."""
    return abs(time.time_ns() - status.st_ctime_ns) < _TICK_NS
