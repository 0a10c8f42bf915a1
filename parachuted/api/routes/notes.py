"""Notes: one note as it is, raw or as JSON; notes filtered, sorted and paged; and their links."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias, TypeVar, get_args
from urllib.parse import unquote_to_bytes

from aiohttp import web
from pydantic import Field

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.http.answers import JSON, answer_writer
from parachuted.api.http.decorators import get
from parachuted.api.http.route import (
    KNOWN,
    ApiCall,
    FolderParameter,
    MediaBody,
    RequestModel,
    Whole,
    is_known,
)
from parachuted.errors import NotFoundError, StorageFailedError
from parachuted.search import (
    CatalogueLink,
    KeyFilter,
    NoteQuery,
    NoteSummary,
    Operator,
    Search,
)
from parachuted.texts.times import Time, moment
from parachuted.vault import (
    NOTE_SUFFIXES,
    NoteProblem,
    ParsedNote,
    Store,
    VaultPath,
    VaultRoot,
    links_in,
    parse_note,
    printable,
)

log = logging.getLogger(__name__)

FOLDER = "/api/notes/"
NAMES = {"path": "The note, relative to the vault."}
Shape: TypeAlias = Literal["raw", "json"]
_MARKDOWN = frozenset({"text/markdown", "text/plain", "text/x-markdown"})
_MOST_KEPT, _LARGEST_KEPT, _MOST_BASE = 512, 32 << 10, 16 << 20
_MOST_PARSED = 10 << 20
_YOUNG_NS = 100_000_000  # two saves within one tick of the file system's clock leave the same times


@dataclass(frozen=True, slots=True)
class SectionAnswer:
    """A heading and the text below it up to the next heading of any level; `path` from the top."""

    level: int
    title: str
    path: Sequence[str]
    content: str


@dataclass(frozen=True, slots=True)
class LinkAnswer:
    kind: str
    target: str
    anchor: str | None
    label: str | None
    line: int


@dataclass(frozen=True, slots=True)
class NoteAnswer:
    """Bytes that are not UTF-8 show as the replacement character: read it raw where each counts.

    `modified` of an earlier version: when it was written or replaced last.
    """

    path: VaultPath
    title: str
    hash: str
    size: int
    modified: Time
    frontmatter: Mapping[str, object]
    preamble: str
    sections: list[SectionAnswer]
    links: list[LinkAnswer]
    problems: tuple[NoteProblem, ...]


class NoteReadQuery(RequestModel):
    """`version`: a digest that the note had once."""

    shape: Annotated[Shape | None, Field(alias="as")] = None
    version: Annotated[str | None, Field(pattern="^[0-9a-f]{64}$")] = None


@dataclass(frozen=True, slots=True)
class _Served:
    """`stamp` is the status of the file at `place` that it was made from."""

    digest: str
    body: bytes
    headers: Mapping[str, str]
    place: bytes = b""
    stamp: tuple[int, ...] = ()

    def is_current(self) -> bool:
        try:
            return _stamp(os.lstat(self.place)) == self.stamp
        except OSError:
            return False


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
                NoteAnswer,
                MediaBody(type="text/markdown", says="The note, or its bytes as they are."),
            ),
            304: None,
        },
        names=NAMES,
        headers={"If-None-Match": KNOWN},
    )
    async def note(self, call: ApiCall) -> web.Response:
        """A note, raw or as JSON with its sections and links."""
        path, query = note_path(call), call.query(NoteReadQuery)
        if query.version is not None:
            shape = query.shape or "raw"
            served = await asyncio.to_thread(self._version, call.files, path, query.version, shape)
        else:
            shape = query.shape or _accepted(call.request.headers.get("Accept"))
            served = await self._present(call.files, path, shape)
        if is_known(call.request, served.digest):
            return web.Response(status=304, headers=served.headers)
        return web.Response(body=served.body, headers=served.headers)

    async def _present(self, files: AccessFilter, path: VaultPath, shape: Shape) -> _Served:
        kept = self._kept.get((path, shape))
        if kept is not None and files.sees(path) and kept.is_current():
            return kept
        served = await asyncio.to_thread(self._read, files, path, shape)
        self._keep(path, shape, served)
        return served

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
        served = _served(shape, path, content.data, content.digest, status.st_mtime_ns / 1e9)
        if not is_old or real != path:
            return served
        return replace(served, place=self._folder + os.fsencode(path), stamp=_stamp(status))

    def _version(self, files: AccessFilter, path: VaultPath, digest: str, shape: Shape) -> _Served:
        """The present text, or one that the daemon's own write replaced or left."""
        real = files.find(path)
        writes = self._store.history.writes_of(real)
        moments = [write.at for write in writes if digest in {write.before, write.after}]
        data = self._store.objects.get(digest) if moments else None
        if data is not None:
            return _served(shape, path, data, digest, moments[-1].timestamp())
        with contextlib.suppress(NotFoundError):
            present = self._store.root.read(real)
            if present.digest == digest:
                return _served(shape, path, present.data, digest, present.status.st_mtime_ns / 1e9)
        raise NotFoundError(f"no version {digest[:12]} of {printable(path)} is kept")


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
    path = _path_in(call.request.rel_url.raw_path, ending)
    if not is_note(path):
        raise no_note(call, path)
    return path


@lru_cache(maxsize=1024)  # the same notes are asked for again and again
def _path_in(address: str, ending: str) -> VaultPath:
    raw = address.removeprefix(FOLDER).removesuffix(ending)
    if "%" in raw or not raw.isascii():
        raw = unquote_to_bytes(raw).decode("utf-8", "surrogateescape")
    return VaultPath.parse(raw)


def _accepted(header: str | None) -> Shape:
    best = (header or "").partition(",")[0].partition(";")[0].strip()
    return "raw" if best in _MARKDOWN else "json"


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


_write_note = answer_writer(NoteAnswer)


def _served(
    shape: Shape,
    path: VaultPath,
    data: bytes,
    digest: str,
    modified: float,
) -> _Served:
    """`modified` in seconds since 1970. 422 when the note is too large for that shape."""
    headers = {"ETag": f'"{digest}"', "Vary": "Accept", "Cache-Control": "no-cache"}
    if shape == "raw":
        return _Served(digest, data, {**headers, "Content-Type": "text/markdown; charset=utf-8"})
    if len(data) > _MOST_PARSED:
        raise web.HTTPUnprocessableEntity(
            text=f"the note is larger than {_MOST_PARSED >> 20} MB, so it is served raw only: add "
            "as=raw"
        )
    answer = answer_of(path, digest, modified, parse_note(data))
    return _Served(digest, _write_note(answer), {**headers, "Content-Type": JSON})


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


_Result = TypeVar("_Result")
_PageSize = Annotated[Whole, Field(ge=1, le=1_000)]
_WORDS = {"true": True, "false": False}
_MOST_FILTERS = 20
_ORDERS = ("path", "title", "modified", "size")
_WHERE = (
    "A condition on a frontmatter key, or on title, modified or size, as key:op:value; op is eq, "
    "ne, gt, lt, in (values with commas "
    "between them) or exists (true or false). It may stand more than once: all must hold."
)


@dataclass(frozen=True, slots=True)
class NotesAnswer:
    """`next` is the cursor of those that follow; `indexing`: the list may lack some."""

    notes: Sequence[NoteSummary]
    next: str | None
    indexing: bool


@dataclass(frozen=True, slots=True)
class Backlinks:
    path: VaultPath
    backlinks: Sequence[CatalogueLink]
    count: int


class NotesQuery(RequestModel):
    where: Annotated[tuple[str, ...], Field(description=_WHERE, max_length=_MOST_FILTERS)] = ()
    folder: Annotated[
        FolderParameter | None, Field(description="Only notes in it, and in folders below it.")
    ] = None
    tag: Annotated[str | None, Field(description="Only notes with that tag, or one below it.")] = (
        None
    )
    sort: Annotated[
        str,
        Field(
            description="path, title, modified, size or a frontmatter key; descending with a - "
            "before it."
        ),
    ] = "path"
    limit: _PageSize = 100
    cursor: Annotated[str | None, Field(description="The `next` of the page before.")] = None


class NoteListingRoutes:
    def __init__(self, root: VaultRoot, search: Search) -> None:
        self._root, self._search, self._catalogue = root, search, search.catalogue

    @get("/api/notes", "vault", "read", for_path_keys=True)
    async def notes(self, call: ApiCall, query: NotesQuery) -> NotesAnswer:
        """Find notes by frontmatter, folder and tag, a page at a time."""
        await self._refuse_unknown(query.sort.removeprefix("-"), call)
        wanted = NoteQuery(
            filters=tuple(map(_filter, query.where)),
            folder=query.folder or None,
            tag=query.tag,
            sort=query.sort,
            limit=query.limit,
            after=query.cursor,
        )
        page = await _ask(lambda: self._catalogue.notes(wanted, call.files.sees))
        return NotesAnswer(page.rows, page.next, self._search.is_behind)

    @get(FOLDER + "{path:.+}/backlinks", "vault", "read", for_path_keys=True, names=NAMES)
    async def backlinks(self, call: ApiCall) -> Backlinks:
        """List the links to a note."""
        path = note_path(call, "/backlinks")
        links = await _ask(lambda: self._backlinks(call, path))
        return Backlinks(path, links, len(links))

    @get("/api/links/target", "vault", "read", for_path_keys=True, wrapped="path")
    async def target(
        self,
        call: ApiCall,
        target: Annotated[
            str, Field(description="What it names, without heading and label.", max_length=1_000)
        ],
        source: Annotated[
            str, Field(description="The note that it stands in.", max_length=4_000)
        ] = "",
    ) -> VaultPath | None:
        """Which file a link leads to; null where there is none that the caller may see."""
        path = await _ask(lambda: self._catalogue.led_to(target, source, call.files.sees))
        return None if path is None else VaultPath(path)

    async def _refuse_unknown(self, key: str, call: ApiCall) -> None:
        """400 for an order that no note has a place in, unless notes are still being indexed."""
        if key in _ORDERS or self._search.is_behind:
            return
        if not await _ask(lambda: self._catalogue.has_key(key, call.files.sees)):
            raise web.HTTPBadRequest(
                text=f"sort: no note has {key[:80]!r}; take {', '.join(_ORDERS)} or a "
                "key of the frontmatter"
            )

    def _backlinks(self, call: ApiCall, path: VaultPath) -> Sequence[CatalogueLink]:
        real = call.files.find(path)
        self._root.size(real)  # which raises where there is none
        return self._catalogue.links_to(real, call.files.sees)


async def _ask(question: Callable[[], _Result]) -> _Result:
    """400 for an invalid cursor."""
    try:
        return await asyncio.to_thread(question)
    except ValueError as error:
        raise web.HTTPBadRequest(text=str(error)) from error


def _filter(text: str) -> KeyFilter:
    """The condition in `key:op:value`; the key may hold colons. 400 when it is none."""
    operators: tuple[Operator, ...] = get_args(Operator)
    places = {text.find(f":{op}:"): op for op in operators}
    for op in (places[at] for at in sorted(places) if at > 0):  # the first first
        key, _, value = text.partition(f":{op}:")
        if op == "in":
            return KeyFilter(key=key, op=op, value=tuple(item.strip() for item in value.split(",")))
        if op != "exists":
            return KeyFilter(key=key, op=op, value=value)
        if value in _WORDS:
            return KeyFilter(key=key, op=op, value=_WORDS[value])
    raise web.HTTPBadRequest(
        text=f"where: {text[:80]!r} is not a condition like status:eq:open, "
        "tags:in:a,b or due:exists:true"
    )
