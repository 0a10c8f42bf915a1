"""Note reading: a note's JSON, made once and kept while its file stays what it was, and the bases
that later edits may name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from aiohttp import web
from typing_extensions import TypedDict

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.http.answers import json_bytes
from parachuted.errors import StorageFailedError
from parachuted.times import Time, moment
from parachuted.vault import (
    NOTE_SUFFIXES,
    FileContent,
    KnownBases,
    ParsedNote,
    VaultIndex,
    VaultPath,
    VaultRoot,
    links_in,
    parse_note,
    printable,
)


class SectionResponse(TypedDict):
    """A heading and the text below it up to the next heading, whatever its level; `path` are the
    titles from the outermost one down.
    """

    level: int
    title: str
    path: list[str]
    content: str


class LinkResponse(TypedDict):
    """A link to a file, as it stands there."""

    kind: str
    target: str
    anchor: str | None
    label: str | None
    line: int


class NoteProblemResponse(TypedDict):
    """Something odd about the file."""

    code: str
    message: str


class NoteResponse(TypedDict):
    """A note; bytes that are not UTF-8 show as the replacement character, so ask for it raw where
    each byte counts.

    `modified` of an earlier version: when it was written, or, where that was not recorded, when
    another took its place.
    """

    path: str
    title: str
    hash: str
    size: int
    modified: Time
    frontmatter: dict[str, object]
    preamble: str
    sections: list[SectionResponse]
    links: list[LinkResponse]
    problems: list[NoteProblemResponse]


class PlaceResponse(TypedDict):
    """Where something stands: bytes from `start` up to `stop`, lines from the first to the last."""

    start: int
    stop: int
    first_line: int
    last_line: int


class HeadingResponse(PlaceResponse):
    """A section, subsections included; its text begins at `body_start`."""

    level: int
    title: str
    path: list[str]
    body_start: int


class FrontmatterKeyResponse(PlaceResponse):
    """A top-level key of the frontmatter, with its value's lines."""

    name: str


class NoteMapResponse(TypedDict):
    """What a note has and where, without its text."""

    path: str
    hash: str
    size: int
    lines: int
    body_start: int
    keys: list[FrontmatterKeyResponse]
    headings: list[HeadingResponse]
    problems: list[NoteProblemResponse]


def note_response(path: str, digest: str, modified: float, note: ParsedNote) -> NoteResponse:
    """The whole of it, each text once. `modified` in seconds since 1970."""
    return {
        "path": printable(path),
        "title": shown(_title(path, note)),
        "hash": digest,
        "size": len(note.data),
        "modified": moment(modified),
        "frontmatter": clean_map(note.values),
        "preamble": note.text(note.preamble),
        "sections": _sections(note),
        "links": _links(note),
        "problems": _problems(note),
    }


def map_of(path: str, digest: str, note: ParsedNote) -> NoteMapResponse:
    lines = _Lines(note, [content_stop := len(note.data)])
    keys: list[FrontmatterKeyResponse] = [
        {"name": shown(key.name), **lines.place(key.span.start, key.span.stop)} for key in note.keys
    ]
    headings: list[HeadingResponse] = [
        {
            "level": one.level,
            "title": shown(one.title),
            "path": [shown(title) for title in one.path],
            "body_start": one.body_start,
            **lines.place(one.start, one.stop),
        }
        for one in note.sections
    ]
    return {
        "path": printable(path),
        "hash": digest,
        "size": content_stop,
        "lines": lines.last(content_stop),
        "body_start": note.body.start,
        "keys": keys,
        "headings": headings,
        "problems": _problems(note),
    }


def shown(text: str) -> str:
    """The text as JSON can hold it: halves of characters show as the replacement character."""
    return (
        text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    )


def clean_map(values: Mapping[str, object]) -> dict[str, object]:
    """Frontmatter as JSON can hold it."""
    return {shown(name): _clean(value) for name, value in values.items()}


def _clean(value: object) -> object:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, Mapping):
        return clean_map(value)
    return [_clean(item) for item in value] if isinstance(value, list | tuple) else value


def _title(path: str, note: ParsedNote) -> str:
    """As lists have it: what the frontmatter says, else the first heading of level 1, else the
    file's name.
    """
    said = note.values.get("title")
    name = printable(path.rpartition("/")[2]).removesuffix(".md").removesuffix(".markdown")
    return (said.strip() if isinstance(said, str) else "") or note.title or name


def _sections(note: ParsedNote) -> list[SectionResponse]:
    return [
        {
            "level": one.level,
            "title": shown(one.title),
            "path": [shown(title) for title in one.path],
            "content": note.text(one.own),
        }
        for one in note.sections
    ]


def _links(note: ParsedNote) -> list[LinkResponse]:
    return [
        {
            "kind": link.kind,
            "target": shown(link.target),
            "anchor": None if link.anchor is None else shown(link.anchor),
            "label": None if link.label is None else shown(link.label),
            "line": link.line,
        }
        for link in links_in(note)
    ]


def _problems(note: ParsedNote) -> list[NoteProblemResponse]:
    return [{"code": one.code, "message": one.message} for one in note.problems]


class _Lines:
    """Numbers of lines by offset, counted in one pass."""

    def __init__(self, note: ParsedNote, more: Iterable[int]) -> None:
        offsets = {0, *more}
        for span in [
            *(key.span for key in note.keys),
            *(section.span for section in note.sections),
        ]:
            offsets |= {span.start, span.stop}
        self._breaks: dict[int, int] = {}
        count = at = 0
        for offset in sorted(offsets):
            count += note.data.count(b"\n", at, offset)
            at = offset
            self._breaks[offset] = count
        self._data = note.data

    def place(self, start: int, stop: int) -> PlaceResponse:
        return {
            "start": start,
            "stop": stop,
            "first_line": self._breaks[start] + 1,
            "last_line": self.last(stop),
        }

    def last(self, stop: int) -> int:
        """The line that the last byte before that offset is on."""
        return self._breaks[stop] + (0 if stop and self._data[stop - 1 : stop] == b"\n" else 1)


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
        return {"ETag": f'"{self.digest}"', "Vary": "Accept", "Cache-Control": "no-cache"}


def is_note(path: str) -> bool:
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
        note_response(path, digest, modified, note)
        if shape == "json"
        else map_of(path, digest, note)
    )
    return CachedAnswer(digest, body, "application/json; charset=utf-8")
