"""Note listing: notes filtered, sorted and paged, and links to a note or to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar, get_args

from aiohttp import web
from pydantic import Field

from parachuted.api.http.decorators import get
from parachuted.api.http.route import ApiCall, FolderParameter, RequestModel, Whole
from parachuted.api.routes.notes import FOLDER, NAMES, Frontmatter, JsonText, json_text, note_path
from parachuted.search import (
    CatalogueLink,
    CatalogueNote,
    KeyFilter,
    LinkPage,
    NoteQuery,
    Operator,
    Search,
)
from parachuted.texts.times import Time, moment
from parachuted.vault import VaultPath, VaultRoot

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
class NoteSummary:
    """As it was last indexed; `hash` is the SHA-256 of its bytes, and its ETag."""

    path: VaultPath
    title: JsonText
    modified: Time
    size: int
    hash: str
    tags: Sequence[JsonText]
    frontmatter: Frontmatter


@dataclass(frozen=True, slots=True)
class NotesAnswer:
    """`next` is the cursor of those that follow; `indexing`: the list may lack some."""

    notes: list[NoteSummary]
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
        return NotesAnswer([_summary(row) for row in page.rows], page.next, self._search.is_behind)

    @get(FOLDER + "{path:.+}/backlinks", "vault", "read", for_path_keys=True, names=NAMES)
    async def backlinks(self, call: ApiCall) -> Backlinks:
        """List the links to a note."""
        path = note_path(call, "/backlinks")
        links = await _ask(lambda: self._backlinks(call, path))
        return Backlinks(path, links, len(links))

    @get("/api/links/unresolved", "vault", "read", for_path_keys=True)
    async def unresolved(
        self, call: ApiCall, limit: _PageSize = 100, cursor: str | None = None
    ) -> LinkPage:
        """List the links that lead nowhere, a page at a time."""
        return await _ask(lambda: self._catalogue.unresolved(call.files.sees, limit, cursor))

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
                text=f"sort: no note has {json_text(key[:80])!r}; take {', '.join(_ORDERS)} or a "
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
        text=f"where: {json_text(text[:80])!r} is not a condition like status:eq:open, "
        "tags:in:a,b or due:exists:true"
    )


def _summary(row: CatalogueNote) -> NoteSummary:
    return NoteSummary(
        path=VaultPath(row.path),
        title=row.title,
        modified=moment(row.modified),
        size=row.size,
        hash=row.digest,
        tags=row.tags,
        frontmatter=row.frontmatter,
    )
