"""Note listing: which notes there are, filtered, sorted and paged, and which links lead to a note,
or to nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.api.http.decorators import get
from parachuted.api.http.route import ApiCall, FolderParameter, RequestModel, Whole
from parachuted.api.routes.note_reading import clean_map, shown
from parachuted.api.routes.notes import FOLDER, note_path
from parachuted.search import CatalogueLink, CatalogueNote, KeyFilter, NoteQuery, Search
from parachuted.times import Time, moment
from parachuted.vault import VaultPath, VaultRoot, printable


class NoteSummaryResponse(TypedDict):
    """A note as it was last indexed; `hash` is the SHA-256 of its bytes, and its ETag."""

    path: str
    title: str
    modified: Time
    size: int
    hash: str
    tags: list[str]
    frontmatter: dict[str, object]


class NotesResponse(TypedDict):
    """Some notes; `next` is the cursor of those that follow, null: there are none.

    `indexing`: the list is being made and lacks some.
    """

    notes: list[NoteSummaryResponse]
    next: str | None
    indexing: bool


class BacklinkResponse(TypedDict):
    """A link that leads here."""

    source: str
    text: str
    kind: str
    line: int


class BacklinksResponse(TypedDict):
    """All links that lead to a note, as far as the caller sees the notes that they stand in."""

    path: str
    backlinks: list[BacklinkResponse]
    count: int


class UnresolvedLinksResponse(TypedDict):
    """Links that lead to nothing; `next` is the cursor of those that follow."""

    links: list[BacklinkResponse]
    next: str | None


class LinkTargetResponse(TypedDict):
    """The file, null where there is none that the caller sees."""

    path: str | None


_Result = TypeVar("_Result")
_WORDS = {"true": True, "false": False}
_MOST_FILTERS = 20
_ORDERS = ("path", "title", "modified", "size")
_WHERE = (
    "A condition on a frontmatter key, or on title, modified or size, as key:op:value; op is eq, "
    "ne, gt, lt, in (values with commas "
    "between them) or exists (true or false). It may stand more than once: all must hold."
)


class NotesQuery(RequestModel):
    """Which notes:
    `where=status:eq:open&where=due:lt:2026-12-01&folder=Projects&tag=garden&sort=-modified`.
    """

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
    limit: Annotated[Whole, Field(ge=1, le=1_000)] = 100
    cursor: Annotated[str | None, Field(description="The `next` of the page before.")] = None


class UnresolvedQuery(RequestModel):
    """Which page."""

    limit: Annotated[Whole, Field(ge=1, le=1_000)] = 100
    cursor: str | None = None


class LinkTargetQuery(RequestModel):
    """A link, as it stands in a note."""

    target: Annotated[
        str, Field(description="What it names, without heading and label.", max_length=1_000)
    ]
    source: Annotated[str, Field(description="The note that it stands in.", max_length=4_000)] = ""


class NoteListingRoutes:
    def __init__(self, root: VaultRoot, search: Search) -> None:
        self._root, self._search, self._catalogue = root, search, search.catalogue

    @get("/api/notes", "vault", "read", reach="paths")
    async def notes(self, call: ApiCall, query: NotesQuery) -> NotesResponse:
        """Find notes by frontmatter, folder and tag, a page at a time."""
        await self._refuse_unknown(query.sort.removeprefix("-"), call)
        asked = NoteQuery(
            filters=tuple(map(_filter, query.where)),
            folder=query.folder or None,
            tag=query.tag,
            sort=query.sort,
            limit=query.limit,
            after=query.cursor,
        )
        page = await _asked(lambda: self._catalogue.notes(asked, call.sight.sees))
        return NotesResponse(
            notes=[_listed(row) for row in page.rows],
            next=page.next,
            indexing=self._search.is_behind,
        )

    @get(
        FOLDER + "{path:.+}/backlinks",
        "vault",
        "read",
        reach="paths",
        names={"path": "The note, relative to the vault."},
    )
    async def backlinks(self, call: ApiCall) -> BacklinksResponse:
        """List the links to a note."""
        path = note_path(call, "/backlinks")
        rows = await _asked(lambda: self._backlinks(call, path))
        links = [_link(row) for row in rows]
        return BacklinksResponse(path=printable(path), backlinks=links, count=len(links))

    @get("/api/links/unresolved", "vault", "read", reach="paths")
    async def unresolved(self, call: ApiCall, query: UnresolvedQuery) -> UnresolvedLinksResponse:
        """List the links that lead nowhere, a page at a time."""
        page = await _asked(
            lambda: self._catalogue.unresolved(call.sight.sees, query.limit, query.cursor)
        )
        return UnresolvedLinksResponse(links=[_link(row) for row in page.rows], next=page.next)

    @get("/api/links/target", "vault", "read", reach="paths")
    async def target(self, call: ApiCall, query: LinkTargetQuery) -> LinkTargetResponse:
        """Which file a link leads to."""
        path = await _asked(
            lambda: self._catalogue.led_to(query.target, query.source, call.sight.sees)
        )
        return LinkTargetResponse(path=None if path is None else printable(path))

    async def _refuse_unknown(self, key: str, call: ApiCall) -> None:
        """400 for an order that no note has a place in, such as a misspelled one; not while notes
        are still being indexed.
        """
        if key in _ORDERS or self._search.is_behind:
            return
        if not await _asked(lambda: self._catalogue.has_key(key, call.sight.sees)):
            raise web.HTTPBadRequest(
                text=f"sort: no note has {shown(key[:80])!r}; take {', '.join(_ORDERS)} or a key "
                "of the frontmatter"
            )

    def _backlinks(self, call: ApiCall, path: VaultPath) -> tuple[CatalogueLink, ...]:
        real = call.sight.find(path)
        self._root.size(real)  # which raises where there is none
        return self._catalogue.links_to(real, call.sight.sees)


async def _asked(ask: Callable[[], _Result]) -> _Result:
    """What the index says. 400 for a cursor that is none."""
    try:
        return await asyncio.to_thread(ask)
    except ValueError as error:
        raise web.HTTPBadRequest(text=str(error)) from error


def _filter(text: str) -> KeyFilter:
    """The condition that `key:op:value` says; the key may hold colons. 400 when it is none."""
    for op in _operators(text):
        key, _, value = text.partition(f":{op}:")
        if op == "in":
            return KeyFilter(key=key, op=op, value=tuple(item.strip() for item in value.split(",")))
        if op != "exists":
            return KeyFilter(key=key, op=op, value=value)
        if value in _WORDS:
            return KeyFilter(key=key, op=op, value=_WORDS[value])
    raise web.HTTPBadRequest(
        text=f"where: {shown(text[:80])!r} is not a condition like status:eq:open, tags:in:a,b or "
        "due:exists:true"
    )


def _operators(text: str) -> list[Literal["eq", "ne", "gt", "lt", "in", "exists"]]:
    """The operators that stand in it, the first first."""
    operators: tuple[Literal["eq", "ne", "gt", "lt", "in", "exists"], ...] = (
        "eq",
        "ne",
        "gt",
        "lt",
        "in",
        "exists",
    )
    found = {text.find(f":{op}:"): op for op in operators}
    return [found[at] for at in sorted(found) if at > 0]


def _listed(row: CatalogueNote) -> NoteSummaryResponse:
    return {
        "path": printable(row.path),
        "title": shown(row.title),
        "modified": moment(row.modified),
        "size": row.size,
        "hash": row.digest,
        "tags": [shown(tag) for tag in row.tags],
        "frontmatter": clean_map(row.frontmatter),
    }


def _link(row: CatalogueLink) -> BacklinkResponse:
    return {
        "source": printable(row.source),
        "text": shown(row.text),
        "kind": row.kind,
        "line": row.line,
    }
