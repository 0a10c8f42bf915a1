"""Search: notes by what they say, and anything of a module by its para-id."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Annotated

from aiohttp import web
from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from parachuted.api.http.decorators import get
from parachuted.api.http.module_dispatcher import ModuleDispatcher
from parachuted.api.http.route import ApiCall, RequestModel, Whole
from parachuted.errors import ModuleFailedError, NotFoundError, ParachuteError
from parachuted.keys import AccessGrant
from parachuted.modules.hosting.host import HandlerCall, ModuleHost
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.search import PARTS, QueryError, Search, SearchHit, parse_query
from parachuted.vault import VaultPath

log = logging.getLogger(__name__)

_LIMIT_S = 5
_LONGEST = 500
_Text = Annotated[str, StringConstraints(max_length=_LONGEST)]


class SearchQuery(RequestModel):
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


@dataclass(frozen=True, slots=True)
class FoundNotes:
    """`complete`: all that matches was ranked; `indexing`: more may be found soon."""

    query: str
    results: list[SearchHit]
    count: int
    complete: bool
    indexing: bool


class SearchRoutes:
    def __init__(self, search: Search) -> None:
        self._search = search

    @get("/api/search", "vault", "read", for_path_keys=True)
    async def search(self, call: ApiCall, query: SearchQuery) -> FoundNotes:
        """Search notes by content, best match first."""
        part = query.within if query.within in PARTS else None
        within = folders_of(call.grant)
        if query.within.strip("/.") and part is None:
            within = [[VaultPath.parse(query.within.rstrip("/"))], *within]
        try:
            parsed = parse_query(query.q, part=part, within=within)
        except QueryError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        sees = None if call.grant.alternatives is None else call.files.sees
        results = await asyncio.to_thread(
            self._search.engine.find, parsed, query.limit, sees, explain=query.explain
        )
        notes = [
            hit if query.explain else replace(hit, why=None)
            for hit in results.hits
            if call.files.sees(hit.path)
        ]
        asked = query.q.encode("utf-8", "replace").decode()
        is_complete = not results.is_capped
        return FoundNotes(asked, notes, len(notes), is_complete, self._search.is_behind)


def folders_of(grant: AccessGrant) -> list[list[str]]:
    """Lists of folders: every file that exists for the caller lies in one of each list."""
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


@checked_dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="ignore"))
class FoundPara:
    """`path` is its file in the vault, `url` where this API answers with it."""

    para_id: _Text
    module: str
    type: _Text = ""
    path: str | None = None
    title: _Text = ""
    url: Annotated[str, Field(pattern=r"^/api/[^\\\s]*$", max_length=_LONGEST)] | None = None


_FOUND = TypeAdapter(FoundPara)


class ParaRoutes:
    def __init__(self, modules: ModuleManager, dispatcher: ModuleDispatcher) -> None:
        self._modules, self._dispatcher = modules, dispatcher

    @get(
        "/api/para/{id}",
        "vault",
        "read",
        names={
            "id": "The para-id, such as para:brain:k3v1n0000000; each module knows older forms."
        },
    )
    async def find(self, call: ApiCall, id_: str) -> FoundPara:
        """Find a thing of any module by its para-id.

        Asks the modules that the caller may read in, the one that the id names first.
        """
        if len(id_) > _LONGEST:
            raise web.HTTPBadRequest(text=f"a para-id has at most {_LONGEST} characters")
        named = id_.removeprefix("para:").partition(":")[0]
        failed: list[str] = []
        for host in sorted(self._modules.hosts(), key=lambda host: host.name != named):
            try:
                para = await self._ask(call, host, id_)
            except ModuleFailedError:
                failed.append(host.name)
                continue
            if para is not None:
                return para
        if failed:
            raise ModuleFailedError(
                f"{id_} was not found, and {' and '.join(failed)} could not say whether it is there"
            )
        raise NotFoundError(f"{id_} is not known to any module")

    async def _ask(self, call: ApiCall, host: ModuleHost, para_id: str) -> FoundPara | None:
        """Raises ModuleFailedError."""
        if not host.declared.finds_para or call.identity.grant(host.name, "read") is None:
            return None
        caller = self._dispatcher.caller(call)
        try:
            answer = await host.call(
                HandlerCall("find_para", {"para_id": para_id}, caller, _LIMIT_S)
            )
            if answer is None:
                return None
            document = {**answer, "module": host.name} if isinstance(answer, dict) else answer
            para = _FOUND.validate_python(document)
            path = VaultPath.parse(para.path) if para.path else None
            if path is not None:
                await asyncio.to_thread(call.files.find, path)
        except NotFoundError:
            return None
        except ValidationError as error:
            log.warning(
                "a module answers with a thing that is none",
                extra={"of": host.name, "error": error.errors(include_url=False)[0]["msg"]},
            )
            raise ModuleFailedError(f"{host.name} answers with a thing that is none") from error
        except ParachuteError as error:
            raise ModuleFailedError(error.message) from error
        call.para_ids.append(para.para_id)
        call.touched += [path] if path else []
        return para if path is not None else replace(para, path=None)
