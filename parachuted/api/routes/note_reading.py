"""Note reading: notes as finished answers, kept while their files stay what they were, and the
bases that later edits may name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from aiohttp import web

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.http.answers import json_bytes
from parachuted.api.routes.note_shapes import map_of, told
from parachuted.errors import StorageFailedError
from parachuted.vault import (
    NOTE_SUFFIXES,
    FileContent,
    KnownBases,
    VaultIndex,
    VaultPath,
    VaultRoot,
    parse_note,
    printable,
)

log = logging.getLogger(__name__)

Shape: TypeAlias = Literal["raw", "json", "map"]
_MOST_BYTES = 16 << 20
_LARGEST = 256 << 10
_MOST_TOLD = 10 << 20
_YOUNG_NS = 100_000_000  # two saves within one tick of the file system's clock leave the same times
_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """One answer: `stamp` is the status of the file that it was made from, `place` where that
    is.
    """

    digest: str
    body: bytes
    type: str
    stamp: tuple[int, ...] = ()
    place: bytes = b""

    @property
    def headers(self) -> dict[str, str]:
        """What tells callers whether they have it already."""
        return {"ETag": f'"{self.digest}"', "Vary": "Accept", "Cache-Control": "no-cache"}


def is_note(path: str) -> bool:
    """Whether a file of that name is a note."""
    return path.endswith(NOTE_SUFFIXES)


def no_note(path: str) -> web.HTTPException:
    """What is said of every name that no note can have."""
    return web.HTTPNotFound(
        text=f"{printable(path)} names no note: those end in .md; other files are read and "
        "written with /api/files"
    )


class NoteReading:
    """Reads notes for answers.

    `fresh` and `keep` are for the event loop's thread, `read` for any other.
    """

    def __init__(self, root: VaultRoot, index: VaultIndex, bases: KnownBases) -> None:
        self._root, self._index, self._bases = root, index, bases
        self._folder = os.fsencode(root.folder) + b"/"
        self._served: OrderedDict[tuple[str, Shape], CachedAnswer] = OrderedDict()
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._to_keep: dict[tuple[str, str], bytes] = {}
        self._lock = threading.Lock()
        self._is_keeping = False
        self._keeping: asyncio.Future[None] | None = None

    def fresh(self, path: str, shape: Shape) -> CachedAnswer | None:
        """The answer that was made before, if the file is the same still: asked of the disk each
        time.
        """
        served = self._served.get((path, shape))
        if served is None:
            return None
        entry = self._index.get(path)
        try:
            is_same = (
                entry is not None
                and entry.digest == served.digest
                and _stamp(os.lstat(served.place)) == served.stamp
            )
        except OSError:
            is_same = False
        if is_same:
            return served
        self._drop((path, shape))
        return None

    def read(
        self, path: VaultPath, shape: Shape, sight: AccessFilter
    ) -> tuple[CachedAnswer, VaultPath, FileContent, bool]:
        """The answer made now, where the note is, what is in it, and whether it may be kept.

        Blocks. Raises what reading raises.
        """
        real = sight.find(path)
        if not is_note(real):
            raise unknown(path)
        content = self._root.read(real)
        status = content.status
        served = served_as(shape, path, content.digest, content.data, status.st_mtime_ns / 1e9)
        served = replace(served, stamp=_stamp(status), place=self._folder + os.fsencode(real))
        is_old = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _YOUNG_NS
        return served, real, content, is_old and real == path and len(served.body) <= _LARGEST

    def remember(self, path: str, shape: Shape, served: CachedAnswer) -> None:
        """Keep an answer, and let the longest unused ones go."""
        self._drop((path, shape))
        self._served[path, shape] = served
        self._bytes += len(served.body)
        while self._bytes > _MOST_BYTES:
            self._drop(next(iter(self._served)))

    def keep(self, path: str, content: FileContent) -> None:
        """Keep the text as a base that an edit may name; soon, so that no answer waits for it."""
        with self._lock:
            text = (path, content.digest)
            if text in self._kept or text in self._to_keep or len(content.data) > _MOST_BYTES:
                return
            self._to_keep[text] = content.data
            if not self._is_keeping:
                self._is_keeping = True
                self._keeping = asyncio.get_running_loop().run_in_executor(None, self._keep_all)

    async def kept(self) -> None:
        """Until all texts are kept that were served before."""
        if self._keeping is not None:
            await asyncio.wait([self._keeping])

    def _keep_all(self) -> None:
        while texts := self._taken():
            try:
                self._bases.see((path, data) for (path, _digest), data in texts.items())
            except (OSError, StorageFailedError) as error:
                log.warning("texts that were served could not be kept", extra={"error": str(error)})
                continue
            with self._lock:
                self._kept.update(dict.fromkeys(texts))
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)

    def _taken(self) -> dict[tuple[str, str], bytes]:
        with self._lock:
            texts, self._to_keep = self._to_keep, {}
            self._is_keeping = bool(texts)
            return texts

    def _drop(self, key: tuple[str, Shape]) -> None:
        served = self._served.pop(key, None)
        self._bytes -= len(served.body) if served is not None else 0


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def served_as(shape: Shape, path: str, digest: str, data: bytes, modified: float) -> CachedAnswer:
    """A text of the note of that path as it is asked for; `modified` in seconds since 1970. 422
    when it is too large for that.
    """
    if shape == "raw":
        return CachedAnswer(digest, data, "text/markdown; charset=utf-8")
    if len(data) > _MOST_TOLD:
        raise web.HTTPUnprocessableEntity(
            text=f"the note is larger than {_MOST_TOLD >> 20} MB, so it is served raw only: add "
            "as=raw"
        )
    note = parse_note(data)
    body = json_bytes(
        told(path, digest, modified, note) if shape == "json" else map_of(path, digest, note)
    )
    return CachedAnswer(digest, body, "application/json; charset=utf-8")
