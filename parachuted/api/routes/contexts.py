"""Contexts: the folders that have a context file, what a choice of them loads, and what is chosen
for each session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated

from aiohttp import web
from pydantic import Field, PlainValidator, WithJsonSchema

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.http.answers import json_answer
from parachuted.api.http.fields import AppRequestModel, RequestModel, Whole
from parachuted.api.http.parts import ApiParts
from parachuted.api.http.route import ApiCall, Route
from parachuted.api.routes import context_documents as told
from parachuted.api.routes.context_listing import ContextListing
from parachuted.context import MOST_CHOSEN, Chain, ContextSelection, chain_of, choice_of, names_in
from parachuted.times import with_times
from parachuted.vault import CONTEXT_NAMES, VaultPath, printable

_MODULE = "vault"
_LONGEST_ID = 200
_LONGEST_NAME = 4_096
_LONGEST_LIST = 100_000


def _text(value: object, longest: int = _LONGEST_NAME) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"should be a text of at most {longest} characters")
    return value


ContextName = Annotated[
    str,
    PlainValidator(_text),
    WithJsonSchema(
        {
            "type": "string",
            "description": "a folder of the vault, or, as older programs have it, a note",
        }
    ),
]
_Names = Annotated[tuple[ContextName, ...], Field(max_length=MOST_CHOSEN)]
NameLists = Annotated[
    tuple[
        Annotated[
            str,
            PlainValidator(lambda value: _text(value, _LONGEST_LIST)),
            WithJsonSchema({"type": "string"}),
        ],
        ...,
    ],
    Field(max_length=MOST_CHOSEN),
]


class ChainQuery(RequestModel):
    """Which folders or files: several names, or one text with commas between them."""

    folders: NameLists = ()
    max_tokens: Annotated[Whole, Field(ge=1, le=10_000_000)] | None = None


class ContextFoldersRequest(AppRequestModel):
    """Folders; older programs name files, too."""

    folder_paths: _Names


class ContextFolderRequest(AppRequestModel):
    """One folder, or several."""

    folder_path: ContextName | None = None
    folder_paths: _Names = ()


class ContextRoutes:
    """The routes of contexts, answered from the index."""

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts
        self._listing = ContextListing(parts.index)

    def routes(self) -> list[Route]:
        """All of them."""
        session = "/api/contexts/session/{id}"
        return [
            Route(
                method="GET",
                path="/api/contexts/folders",
                module=_MODULE,
                capability="read",
                reach="paths",
                handle=self.folders,
                summary="The folders that have a context file.",
                answers={200: told.ContextFoldersResponse},
            ),
            Route(
                method="GET",
                path="/api/contexts/chain",
                module=_MODULE,
                capability="read",
                reach="paths",
                handle=self.chain,
                query=ChainQuery,
                summary="What a choice of folders loads, and what it does not, with the reason.",
                answers={200: told.ChainResponse},
            ),
            Route(
                method="GET",
                path=session,
                module=_MODULE,
                capability="read",
                reach="paths",
                handle=self.session,
                summary="The contexts chosen for a session.",
                answers={200: told.SessionContextsResponse},
            ),
            Route(
                method="PUT",
                path=session,
                module=_MODULE,
                capability="write",
                reach="paths",
                handle=self.choose,
                body=ContextFoldersRequest,
                summary="Choose a session's contexts anew.",
                answers={200: told.SessionContextsResponse},
            ),
            Route(
                method="POST",
                path=f"{session}/add",
                module=_MODULE,
                capability="write",
                reach="paths",
                handle=self.add,
                body=ContextFolderRequest,
                summary="Choose more contexts for a session.",
                answers={200: told.SessionContextsResponse},
            ),
            Route(
                method="POST",
                path=f"{session}/remove",
                module=_MODULE,
                capability="write",
                reach="paths",
                handle=self.remove,
                body=ContextFolderRequest,
                summary="Choose fewer contexts for a session.",
                answers={200: told.SessionContextsResponse},
            ),
        ]

    async def folders(self, call: ApiCall) -> web.Response:
        """`GET /api/contexts/folders`."""
        if call.grant.alternatives is None:
            return web.Response(
                body=self._listing.body(), content_type="application/json", charset="utf-8"
            )
        return json_answer(self._listing.seen(call.sight.sees))

    async def chain(self, call: ApiCall) -> web.Response:
        """`GET /api/contexts/chain?folders=a,b&max_tokens=`; an empty name is the vault itself."""
        query = call.query(ChainQuery)
        choice = chosen_in(query.folders or [""], self._parts)
        chain = await asyncio.to_thread(
            chain_of,
            choice,
            self._parts.index,
            self._parts.watches.watched_by,
            max_tokens=query.max_tokens,
            sees=call.sight.sees,
        )
        return json_answer(chain_document(chain))

    async def session(self, call: ApiCall) -> web.Response:
        """`GET /api/contexts/session/{id}`."""
        return self._session(call)

    async def choose(self, call: ApiCall) -> web.Response:
        """`PUT /api/contexts/session/{id}` with `{"folder_paths"}`; what is not the caller's to see
        stays.
        """
        names = (await call.body(ContextFoldersRequest)).folder_paths
        kept = [
            one.folder_path
            for one in self._parts.sessions.of(_session_id(call))
            if not _is_seen(one.folder_path, call.sight)
        ]
        return self._keep(call, [*kept, *self._paths(names, call.sight)])

    async def add(self, call: ApiCall) -> web.Response:
        """`POST /api/contexts/session/{id}/add` with `{"folder_path"}` or `{"folder_paths"}`."""
        paths = self._paths(_named(await call.body(ContextFolderRequest)), call.sight)
        return self._keep(
            call, [*(one.folder_path for one in self._parts.sessions.of(_session_id(call))), *paths]
        )

    async def remove(self, call: ApiCall) -> web.Response:
        """`POST /api/contexts/session/{id}/remove`; what was not chosen is not missed."""
        paths = set(self._paths(_named(await call.body(ContextFolderRequest)), call.sight))
        chosen = [one.folder_path for one in self._parts.sessions.of(_session_id(call))]
        return self._keep(call, [path for path in chosen if path not in paths])

    def _paths(self, names: Iterable[str], sight: AccessFilter) -> list[VaultPath]:
        """What the names mean.

        Raises NotFoundError for what is not the caller's to see, whether it is there or not.
        """
        choice = choice_of(names, self._parts.index)
        paths = [*map(VaultPath, choice.folders), *choice.files]
        for path in paths:
            if not _is_seen(path, sight):
                raise unknown(path)
        return paths

    def _keep(self, call: ApiCall, paths: Iterable[VaultPath]) -> web.Response:
        wanted = list(dict.fromkeys(paths))
        if len(wanted) > MOST_CHOSEN:
            raise web.HTTPBadRequest(text=f"a session has at most {MOST_CHOSEN} contexts")
        self._parts.sessions.choose(_session_id(call), wanted, call.identity.id)
        return self._session(call)

    def _session(self, call: ApiCall) -> web.Response:
        session = _session_id(call)
        chosen = [
            one for one in self._parts.sessions.of(session) if _is_seen(one.folder_path, call.sight)
        ]
        contexts = with_times(
            [
                {"folder_path": printable(one.folder_path), "added_at": one.added_at}
                for one in chosen
            ]
        )
        missing = [
            printable(one.folder_path)
            for one in chosen
            if not self._is_there(one.folder_path, call.sight)
        ]
        names = [one["folder_path"] for one in contexts]
        return json_answer(
            {"session_id": session, "folder_paths": names, "missing": missing, "contexts": contexts}
        )

    def _is_there(self, path: VaultPath, sight: AccessFilter) -> bool:
        return any(
            sight.sees(file) and self._parts.index.get(file) is not None for file in _files_of(path)
        )


def chosen_in(texts: Iterable[str], parts: ApiParts) -> ContextSelection:
    """What texts of names mean. 400 for too many; raises PathRefusedError."""
    names = names_in(texts, parts.index)
    if len(names) > MOST_CHOSEN:
        raise web.HTTPBadRequest(text=f"at most {MOST_CHOSEN} contexts may be named at once")
    return choice_of(names, parts.index)


def chain_document(chain: Chain) -> dict[str, object]:
    """A chain as JSON."""
    files = [
        {
            "path": printable(file.path),
            "folder_path": printable(file.folder_path),
            "level": file.level,
            "tokens": file.tokens,
            "exists": file.exists,
            "included": file.included,
            "reason": printable(file.reason),
        }
        for file in chain.files
    ]
    return {"files": files, "total_tokens": chain.total_tokens, "truncated": chain.truncated}


def _session_id(call: ApiCall) -> str:
    name = call.named("id")
    if len(name) > _LONGEST_ID or not name.isprintable() or not name.strip():
        raise web.HTTPBadRequest(
            text=f"a session's id is a text of at most {_LONGEST_ID} printable characters"
        )
    return name


def _named(body: ContextFolderRequest) -> list[str]:
    return [*([] if body.folder_path is None else [body.folder_path]), *body.folder_paths]


def _is_seen(path: VaultPath, sight: AccessFilter) -> bool:
    """Whether the folder's context file, or that file itself, would exist for the caller."""
    return any(map(sight.sees, _files_of(path)))


def _files_of(path: VaultPath) -> list[str]:
    """The files that may be meant by a choice: that file, or the folder's context files."""
    return (
        [path]
        if path.endswith(".md")
        else [f"{path}/{name}" if path else name for name in CONTEXT_NAMES]
    )
