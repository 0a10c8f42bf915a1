"""Notes: one note as it is, in the form that is asked for, and its versions."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from aiohttp import web
from pydantic import Field, PlainSerializer

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.http.answers import JSON, answer_writer
from parachuted.api.http.decorators import get
from parachuted.api.http.route import KNOWN, ApiCall, MediaBody, RequestModel, Whole, is_known
from parachuted.errors import NotFoundError, StorageFailedError
from parachuted.texts.times import Time, moment
from parachuted.vault import (
    NOTE_SUFFIXES,
    NoteProblem,
    ParsedNote,
    Store,
    VaultPath,
    Write,
    links_in,
    parse_note,
    printable,
)

log = logging.getLogger(__name__)

FOLDER = "/api/notes/"
NAMES = {"path": "The note, relative to the vault."}
Shape: TypeAlias = Literal["raw", "json", "map"]
_MARKDOWN = frozenset({"text/markdown", "text/plain", "text/x-markdown"})
_MOST_KEPT, _LARGEST_KEPT, _MOST_BASE = 512, 32 << 10, 16 << 20
_MOST_PARSED = 10 << 20
_YOUNG_NS = 100_000_000  # two saves within one tick of the file system's clock leave the same times


def json_text(text: str) -> str:
    """The text as JSON can hold it: halves of characters show as the replacement character."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def clean(value: object) -> object:
    if isinstance(value, str):
        return json_text(value)
    if isinstance(value, Mapping):
        return {json_text(name): clean(item) for name, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list | tuple) else value


JsonText = Annotated[str, PlainSerializer(json_text, return_type=str)]
Frontmatter = Annotated[Mapping[str, object], PlainSerializer(clean, return_type=dict[str, object])]


@dataclass(frozen=True, slots=True)
class SectionAnswer:
    """A heading and the text below it up to the next heading of any level; `path` from the top."""

    level: int
    title: JsonText
    path: Sequence[JsonText]
    content: str


@dataclass(frozen=True, slots=True)
class LinkAnswer:
    kind: str
    target: JsonText
    anchor: JsonText | None
    label: JsonText | None
    line: int


@dataclass(frozen=True, slots=True)
class NoteAnswer:
    """Bytes that are not UTF-8 show as the replacement character: read it raw where each counts.

    `modified` of an earlier version: when it was written, or else when it was replaced.
    """

    path: VaultPath
    title: JsonText
    hash: str
    size: int
    modified: Time
    frontmatter: Frontmatter
    preamble: str
    sections: list[SectionAnswer]
    links: list[LinkAnswer]
    problems: tuple[NoteProblem, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes from `start` up to `stop`, lines from the first to the last."""

    start: int
    stop: int
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class HeadingPlace(Place):
    """A section, subsections included; its text begins at `body_start`."""

    level: int
    title: JsonText
    path: Sequence[JsonText]
    body_start: int


@dataclass(frozen=True, slots=True)
class KeyPlace(Place):
    """A top-level key of the frontmatter, with its value's lines."""

    name: JsonText


@dataclass(frozen=True, slots=True)
class NoteMap:
    path: VaultPath
    hash: str
    size: int
    lines: int
    body_start: int
    keys: list[KeyPlace]
    headings: list[HeadingPlace]
    problems: tuple[NoteProblem, ...]


@dataclass(frozen=True, slots=True)
class NoteVersion:
    """An earlier text, as `?version=` takes its `hash`; null where something is not known."""

    hash: str
    at: datetime | None = None
    by: str | None = None
    operation: str | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class NoteVersions:
    """Newest first."""

    path: VaultPath
    versions: list[NoteVersion]


class NoteReadQuery(RequestModel):
    """`version`: a digest that the note had once."""

    shape: Annotated[Shape | None, Field(alias="as")] = None
    version: Annotated[str | None, Field(pattern="^[0-9a-f]{64}$")] = None


@dataclass(frozen=True, slots=True)
class _Served:
    """`stamp` is the status of the file that it was made from."""

    digest: str
    body: bytes
    type: str
    stamp: tuple[int, ...] = ()


class NoteRoutes:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = os.fsencode(store.root.folder) + b"/"
        self._kept: OrderedDict[tuple[str, Shape], _Served] = OrderedDict()

    @get(
        FOLDER + "{path:.+}",
        "vault",
        "read",
        for_path_keys=True,
        query=NoteReadQuery,
        answers={
            200: (
                NoteAnswer | NoteMap,
                MediaBody(type="text/markdown", says="The note, or its bytes as they are."),
            ),
            304: None,
        },
        names=NAMES,
        headers={"If-None-Match": KNOWN},
        errors=(422,),
    )
    async def note(self, call: ApiCall) -> web.Response:
        """A note: raw, as JSON with its sections and links, or as a map of its headings and
        keys.
        """
        path, query = note_path(call), call.query(NoteReadQuery)
        if query.version is not None:
            shape = query.shape or "raw"
            served = await asyncio.to_thread(self._version, call.files, path, query.version, shape)
        else:
            shape = query.shape or _accepted(call.request.headers.get("Accept"))
            served = await self._present(call.files, path, shape)
        headers = {"ETag": f'"{served.digest}"', "Vary": "Accept", "Cache-Control": "no-cache"}
        if is_known(call.request, served.digest):
            return web.Response(status=304, headers=headers)
        return web.Response(body=served.body, headers={**headers, "Content-Type": served.type})

    async def _present(self, files: AccessFilter, path: VaultPath, shape: Shape) -> _Served:
        kept = self._kept.get((path, shape))
        if kept is not None and files.sees(path) and self._is_same(path, kept):
            return kept
        served = await asyncio.to_thread(self._read, files, path, shape)
        self._keep(path, shape, served)
        return served

    def _is_same(self, path: VaultPath, served: _Served) -> bool:
        try:
            return _stamp(os.lstat(self._folder + os.fsencode(path))) == served.stamp
        except OSError:
            return False

    def _keep(self, path: VaultPath, shape: Shape, served: _Served) -> None:
        """For those who read the same note often, which takes a third of the time then."""
        self._kept.pop((path, shape), None)
        if served.stamp and len(served.body) <= _LARGEST_KEPT:
            self._kept[path, shape] = served
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)

    def _read(self, files: AccessFilter, path: VaultPath, shape: Shape) -> _Served:
        """The text is kept as a base that a later edit may name."""
        real = files.find(path)
        if not is_note(real):
            raise unknown(path)
        content = self._store.root.read(real)
        status = content.status
        if len(content.data) <= _MOST_BASE:
            try:
                self._store.bases.see([(real, content.data)])
            except (OSError, StorageFailedError) as error:
                log.warning("a text that was served could not be kept", extra={"error": str(error)})
        is_old = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _YOUNG_NS
        stamp = _stamp(status) if is_old and real == path else ()
        return _served(shape, path, content.data, content.digest, status.st_mtime_ns / 1e9, stamp)

    @get(FOLDER + "{path:.+}/versions", "vault", "read", for_path_keys=True, names=NAMES)
    async def versions(
        self, call: ApiCall, limit: Annotated[Whole, Field(ge=1, le=1_000)] = 100
    ) -> NoteVersions:
        """The earlier texts of a note."""
        path = note_path(call, "/versions")
        versions = await asyncio.to_thread(self._versions, call.files, path, limit)
        return NoteVersions(path, versions)

    def _versions(self, files: AccessFilter, path: VaultPath, limit: int) -> list[NoteVersion]:
        real, objects = files.find(path), self._store.objects
        writes = self._store.history.writes_of(real)
        try:
            present = self._store.root.read(real).digest
        except NotFoundError:
            if not writes:
                raise
            present = ""
        found = (
            version
            for version in versions_of(writes)
            if version.hash != present and version.hash in objects
        )
        return list(itertools.islice(found, limit))

    def _version(self, files: AccessFilter, path: VaultPath, digest: str, shape: Shape) -> _Served:
        """The present text, or one that the daemon's own write replaced or left."""
        real = files.find(path)
        writes = self._store.history.writes_of(real)
        moments = [write.at for write in writes if write.after == digest] or [
            write.at for write in writes if write.before == digest
        ]
        data = self._store.objects.get(digest) if moments else None
        if data is not None:
            return _served(shape, path, data, digest, moments[-1].timestamp())
        with contextlib.suppress(NotFoundError):
            present = self._store.root.read(real)
            if present.digest == digest:
                return _served(shape, path, present.data, digest, present.status.st_mtime_ns / 1e9)
        raise NotFoundError(f"no version {digest[:12]} of {printable(path)} is kept")


def versions_of(writes: Sequence[Write]) -> list[NoteVersion]:
    """Each text once, as it was last there; the newest first."""
    found: dict[str, NoteVersion] = {}
    for write in reversed(writes):
        if write.after is not None and (write.after not in found or found[write.after].at is None):
            author = write.author
            found[write.after] = NoteVersion(
                write.after, write.at, author.by, write.operation, author.run
            )
        if write.before is not None:
            found.setdefault(write.before, NoteVersion(write.before))
    return list(found.values())


def is_note(path: str) -> bool:
    return path.endswith(NOTE_SUFFIXES)


def no_note(call: ApiCall, path: VaultPath) -> Exception:
    """The error for a name that no note can have; for an invisible one as for an unknown one."""
    if not call.files.sees(path):
        return unknown(path)
    return web.HTTPNotFound(
        text=f"{printable(path)} names no note: those end in .md; other files are read and "
        "written with /api/files"
    )


def note_path(call: ApiCall, ending: str = "") -> VaultPath:
    """The note in the request's path; names that are not UTF-8 as `os.fsdecode` gives them.

    Raises PathRefusedError and HTTPNotFound.
    """
    raw = call.request.rel_url.raw_path.removeprefix(FOLDER).removesuffix(ending)
    if "%" in raw or not raw.isascii():
        raw = unquote_to_bytes(raw).decode("utf-8", "surrogateescape")
    path = VaultPath.parse(raw)
    if not is_note(path):
        raise no_note(call, path)
    return path


def _accepted(header: str | None) -> Shape:
    best = (header or "").partition(",")[0].partition(";")[0].strip()
    return "raw" if best in _MARKDOWN else "json"


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


_write_note, _write_map = answer_writer(NoteAnswer), answer_writer(NoteMap)


def _served(
    shape: Shape,
    path: VaultPath,
    data: bytes,
    digest: str,
    modified: float,
    stamp: tuple[int, ...] = (),
) -> _Served:
    """`modified` in seconds since 1970. 422 when the note is too large for that shape."""
    if shape == "raw":
        return _Served(digest, data, "text/markdown; charset=utf-8", stamp)
    if len(data) > _MOST_PARSED:
        raise web.HTTPUnprocessableEntity(
            text=f"the note is larger than {_MOST_PARSED >> 20} MB, so it is served raw only: add "
            "as=raw"
        )
    note = parse_note(data)
    if shape == "map":
        return _Served(digest, _write_map(map_of(path, digest, note)), JSON, stamp)
    return _Served(digest, _write_note(answer_of(path, digest, modified, note)), JSON, stamp)


def answer_of(path: VaultPath, digest: str, modified: float, note: ParsedNote) -> NoteAnswer:
    said = note.values.get("title")  # as lists have it: else the first heading, else the name
    name = path.name.removesuffix(".md").removesuffix(".markdown")
    return NoteAnswer(
        path=path,
        title=(said.strip() if isinstance(said, str) else "") or note.title or printable(name),
        hash=digest,
        size=len(note.data),
        modified=moment(modified),
        frontmatter=note.values,
        preamble=note.text(note.preamble),
        sections=[
            SectionAnswer(section.level, section.title, section.path, note.text(section.own))
            for section in note.sections
        ],
        links=[
            LinkAnswer(link.kind, link.target, link.anchor, link.label, link.line)
            for link in links_in(note)
        ],
        problems=note.problems,
    )


def map_of(path: VaultPath, digest: str, note: ParsedNote) -> NoteMap:
    data, size = note.data, len(note.data)
    spans = [*(key.span for key in note.keys), *(section.span for section in note.sections)]
    breaks, count, at = dict[int, int](), 0, 0  # how many lines end before an offset
    for offset in sorted({0, size, *(edge for span in spans for edge in (span.start, span.stop))}):
        count += data.count(b"\n", at, offset)
        breaks[offset] = count
        at = offset

    def last(stop: int) -> int:
        return breaks[stop] + (0 if data.endswith(b"\n", 0, stop) else 1)

    keys = [(key, key.span) for key in note.keys]
    return NoteMap(
        path=path,
        hash=digest,
        size=size,
        lines=last(size),
        body_start=note.body.start,
        keys=[
            KeyPlace(span.start, span.stop, breaks[span.start] + 1, last(span.stop), key.name)
            for key, span in keys
        ],
        headings=[
            HeadingPlace(
                *(one.start, one.stop, breaks[one.start] + 1, last(one.stop)),
                *(one.level, one.title, one.path, one.body_start),
            )
            for one in note.sections
        ],
        problems=note.problems,
    )
