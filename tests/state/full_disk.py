"""A disk that refuses what a state would write."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from parachuted.errors import StorageFailedError
from parachuted.state import StateStore


def fill_disk(state: StateStore, is_full: Callable[[], bool]) -> StateStore:
    """`is_full` is asked before each batch is written."""
    write = state.database.write

    @contextmanager
    def written() -> Iterator[sqlite3.Connection]:
        if is_full():
            raise StorageFailedError("the disk is full", errno=errno.ENOSPC)
        with write() as connection:
            yield connection

    state.database.write = written
    return state
