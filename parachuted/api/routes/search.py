"""Search: notes by what they say, and anything of a module by its para-id."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, NotRequired

from aiohttp import web
from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from parachuted.api.http.decorators import get
from parachuted.api.http.module_dispatcher import ModuleDispatcher
from parachuted.api.http.route import ApiCall, RequestModel, Whole
from parachuted.errors import ModuleFailedError, NotFoundError, ParachuteError
from parachuted.keys import AccessGrant
from parachuted.modules.hosting.host import ModuleHost
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.search import PARTS, QueryError, Search, SearchHit, SearchResults, parse_query
from parachuted.times import Time, moment
from parachuted.vault import VaultPath, printable


class SearchQuery(RequestModel):
    """What is sought: words; "a phrase"; begin*; tag:, path:, title: or any frontmatter key:value;
    -without. `in`: a folder, or a part.
    """

    q: Annotated[
        str,
        Field(
            description='words, "a phrase", begin* (one letter: in titles), tag:x, path:x, '
            "title:x, any key:value, -without",
            examples=["a*"],
        ),
    ]
    within: Annotated[
        str,
        Field(
            alias="in",
            description=f"a folder of the vault, or a part of notes: {', '.join(PARTS)} (a folder "
            "of such a name: `title/`)",
        ),
    ] = ""
    limit: Annotated[Whole, Field(ge=1, le=100)] = 20
    explain: bool = False


class RankingResponse(TypedDict):
    """`score` is `bm25` times `freshness` times `same_title`; `hits` is how often words of the
    query stand in each part.
    """

    bm25: float
    freshness: float
    same_title: float
    hits: dict[str, int]


class SearchHitResponse(TypedDict):
    """A note.

    `snippet` is HTML: escaped text of the note, with `<mark>` around what was sought, and no other
    markup.
    """

    path: str
    title: str
    modified: Time
    tags: list[str]
    snippet: str
    score: float
    why: NotRequired[RankingResponse]


class SearchResponse(TypedDict):
    """The best first.

    `complete`: all that matches was ranked, not only the likeliest some thousand; `indexing`: more
    may be found soon.
    """

    query: str
    results: list[SearchHitResponse]
    count: int
    complete: bool
    indexing: bool


class SearchRoutes:
    def __init__(self, search: Search) -> None:
        self._search = search

    @get("/api/search", "vault", "read", reach="paths")
    async def search(self, call: ApiCall, query: SearchQuery) -> SearchResponse:
        """Search notes by content, best match first."""
        part = query.within if query.within in PARTS else None
        folder = (
            VaultPath.parse(query.within.rstrip("/"))
            if query.within.strip("/.") and part is None
            else None
        )
        within = [[folder]] if folder else []
        try:
            parsed = parse_query(query.q, part=part, within=[*within, *folders_of(call.grant)])
        except QueryError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        sees = None if call.grant.alternatives is None else call.sight.sees
        found = await asyncio.to_thread(
            self._search.find, parsed, query.limit, sees, explain=query.explain
        )
        return self._response(query, found, call)

    def _response(self, asked: SearchQuery, found: SearchResults, call: ApiCall) -> SearchResponse:
        hits = [_hit(hit, explain=asked.explain) for hit in found.hits if call.sight.sees(hit.path)]
        return SearchResponse(
            query=asked.q.encode("utf-8", "replace").decode(),
            results=hits,
            count=len(hits),
            complete=not found.is_capped,
            indexing=self._search.is_behind,
        )


def _hit(hit: SearchHit, *, explain: bool) -> SearchHitResponse:
    response = SearchHitResponse(
        path=printable(hit.path),
        title=hit.title,
        modified=moment(hit.modified),
        tags=list(hit.tags),
        snippet=hit.snippet,
        score=_short(hit.why.score),
    )
    if explain:
        why = hit.why
        response["why"] = RankingResponse(
            bm25=_short(why.bm25),
            freshness=_short(why.freshness),
            same_title=why.same_title,
            hits=dict(why.hits),
        )
    return response


def _short(number: float) -> float:
    """Words that most notes have in common weigh nearly nothing, so digits count, not places."""
    return float(f"{number:.5g}")


def folders_of(grant: AccessGrant) -> list[list[str]]:
    """Folders one of which every file that exists for the caller is in, as lists of alternatives:
    a search elsewhere finds nothing.
    """
    if grant.alternatives is None:
        return []
    found: list[str] = []
    for every in grant.alternatives:
        globs = every[0] if every else ()
        folders = [glob.folder for glob in globs]
        if not all(folders):
            return []
        found += folders
    return [found] if found else []


log = logging.getLogger(__name__)

_LIMIT_S = 5
_LONGEST = 500
_Text = Annotated[str, StringConstraints(max_length=_LONGEST)]


class ParaResponse(TypedDict):
    """What has that id. `path` is its file in the vault, `url` where this API answers with it."""

    para_id: str
    module: str
    type: str
    path: str | None
    title: str
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="ignore"))
class _Found:
    para_id: _Text
    type: _Text = ""
    path: str | None = None
    title: _Text = ""
    url: Annotated[str, Field(pattern=r"^/api/[^\\\s]*$", max_length=_LONGEST)] | None = None


_FOUND = TypeAdapter(_Found)


class ParaRoutes:
    def __init__(self, modules: ModuleManager, dispatcher: ModuleDispatcher) -> None:
        self._modules, self._dispatcher = modules, dispatcher

    @get(
        "/api/para/{id}",
        "vault",
        "read",
        reach="paths",
        names={
            "id": "The para-id, such as para:brain:k3v1n0000000; each module knows older forms."
        },
        errors=(502,),
    )
    async def find(self, call: ApiCall, id_: str) -> ParaResponse:
        """Find a thing of any module by its para-id.

        Asks the modules that the caller may read in, the one that the id names first. A thing whose
        file the caller may not read is not found.
        """
        if len(id_) > _LONGEST:
            raise web.HTTPBadRequest(text=f"a para-id has at most {_LONGEST} characters")
        named = id_.removeprefix("para:").partition(":")[0]
        failed: list[str] = []
        for host in sorted(self._modules.hosts(), key=lambda one: one.name != named):
            try:
                found = await self._ask(call, host, id_)
            except ModuleFailedError:
                failed.append(host.name)
                continue
            if found is not None:
                return found
        if failed:
            raise ModuleFailedError(
                f"{id_} was not found, and {' and '.join(failed)} could not say whether it is there"
            )
        raise NotFoundError(f"{id_} is not known to any module")

    async def _ask(self, call: ApiCall, host: ModuleHost, para_id: str) -> ParaResponse | None:
        """What that module finds. Raises ModuleFailedError."""
        module = host.name
        grant = call.identity.grant(module, "read")
        if not host.declared.finds_para or grant is None:
            return None
        try:
            answer = await host.call(
                "find_para",
                {"para_id": para_id},
                timeout_s=_LIMIT_S,
                authority=self._dispatcher.authority(call, grant),
            )
            found = None if answer is None else _FOUND.validate_python(answer)
            path = None if found is None or not found.path else VaultPath.parse(found.path)
            if path is not None:
                await asyncio.to_thread(call.sight.find, path)
        except NotFoundError:
            return None
        except ValidationError as error:
            log.warning(
                "a module answers with a thing that is none",
                extra={"of": module, "error": error.errors(include_url=False)[0]["msg"]},
            )
            raise ModuleFailedError(f"{module} answers with a thing that is none") from error
        except ParachuteError as error:
            raise ModuleFailedError(error.message) from error
        if found is None:
            return None
        call.para_ids.append(found.para_id)
        call.touched += [path] if path else []
        return {
            "para_id": found.para_id,
            "module": module,
            "type": found.type,
            "path": found.path or None,
            "title": found.title,
            "url": found.url,
        }
