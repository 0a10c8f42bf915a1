"""Contexts: the folders that have a context file, what a choice of them loads, what is chosen for
each session, and the migration of an older server's context files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated

from aiohttp import web
from pydantic import Field, PlainValidator, WithJsonSchema
from typing_extensions import TypedDict

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.http.answers import json_answer
from parachuted.api.http.decorators import get, post, put
from parachuted.api.http.route import ApiCall, AppRequestModel, RequestModel, Whole
from parachuted.bubbling import WatchRegistry
from parachuted.context import (
    MOST_CHOSEN,
    Chain,
    ContextFolder,
    ContextSelection,
    PlannedMove,
    SessionContexts,
    chain_of,
    choice_of,
    context_folder,
    names_in,
)
from parachuted.times import Time, with_times
from parachuted.tools import Migration
from parachuted.vault import CONTEXT_NAMES, VaultIndex, VaultPath, printable


class ContextFolderResponse(TypedDict):
    """A folder with a context file."""

    path: str
    context_file: str
    has_agents_md: bool
    has_claude_md: bool
    display_name: str
    tokens: int


class ContextFoldersResponse(TypedDict):
    """All context folders."""

    folders: list[ContextFolderResponse]
    count: int


class ChainFileResponse(TypedDict):
    """A context file and whether it is loaded."""

    path: str
    folder_path: str
    level: str
    tokens: int
    exists: bool
    included: bool
    reason: str


class ChainResponse(TypedDict):
    """A chain, in the order of the prompt."""

    files: list[ChainFileResponse]
    total_tokens: int
    truncated: bool


class SessionContextResponse(TypedDict):
    """One context of a session."""

    folder_path: str
    added_at: Time


class SessionContextsResponse(TypedDict):
    """What is chosen for a session; `contexts` says the same with times.

    `missing`: those of them without a context file, now.
    """

    session_id: str
    folder_paths: list[str]
    missing: list[str]
    contexts: list[SessionContextResponse]


class PromptResponse(TypedDict):
    """A prompt and what it was made of, as the app reads it; `files` lists what was left out,
    too.
    """

    prompt: str
    promptSource: str
    promptSourcePath: str | None
    contextFiles: list[str]
    contextTokens: int
    contextTruncated: bool
    agentName: str | None
    availableAgents: list[str]
    availableSkills: list[str]
    availableMcps: list[str]
    basePromptTokens: int
    totalPromptTokens: int
    trustMode: bool
    workingDirectoryClaudeMd: str | None
    brain_context_loaded: bool
    brain_context_count: int
    files: list[ChainFileResponse]


class MigrationMoveResponse(TypedDict):
    """What becomes of an old context file.

    `action`: create, append, keep (nothing to add) or refuse; `sections` are those added.
    """

    file: str
    target: str
    action: str
    sections: list[str]
    kept_as: str
    reason: str


class MigrationPlanResponse(TypedDict):
    """What a migration would do; nothing was done."""

    moves: list[MigrationMoveResponse]
    count: int


class ContextMigrationResponse(TypedDict):
    """What it did; `run` is what `parachute undo` takes, None when there was nothing to do."""

    run: str | None
    moves: list[MigrationMoveResponse]
    sessions: int


_Sizes = tuple[int | None, ...]
_Document = dict[str, object]


class ContextListing:
    """Its cost depends on what changed, and not on what is there."""

    def __init__(self, index: VaultIndex) -> None:
        self._index = index
        self._version = -1
        self._folders: dict[str, tuple[_Sizes, VaultPath, _Document]] = {}
        self._body = b""

    def body(self) -> bytes:
        self._follow()
        if not self._body:
            answer = json_answer(
                _listing([response for _sizes, _path, response in self._folders.values()])
            )
            self._body = answer.body if isinstance(answer.body, bytes) else b""
        return self._body

    def seen(self, sees: Callable[[str], bool]) -> _Document:
        self._follow()
        return _listing(
            [response for _sizes, path, response in self._folders.values() if sees(path)]
        )

    def _follow(self) -> None:
        if self._version == self._index.contexts_version:
            return
        self._version, self._body = self._index.contexts_version, b""
        before, self._folders = self._folders, {}
        for folder in self._index.context_folders():
            files = self._index.entries(folder)
            sizes = tuple(files[name].size if name in files else None for name in CONTEXT_NAMES)
            known = before.get(folder)
            if known is not None and known[0] == sizes:
                self._folders[folder] = known
            elif (found := context_folder(folder, self._index)) is not None:
                self._folders[folder] = (sizes, found.context_file, _folder_document(found))


def _listing(folders: list[_Document]) -> _Document:
    return {"folders": folders, "count": len(folders)}


def _folder_document(folder: ContextFolder) -> _Document:
    return {
        "path": printable(folder.path),
        "context_file": printable(folder.context_file),
        "has_agents_md": folder.has_agents_md,
        "has_claude_md": folder.has_claude_md,
        "display_name": printable(folder.display_name),
        "tokens": folder.tokens,
    }


_PATH = "/api/contexts/migration"


class ContextMigrationRoutes:
    """Its two routes. They tell of, and touch, what the caller may see."""

    def __init__(self, migration: Migration) -> None:
        self._migration = migration

    @get(_PATH, "vault", "admin", reach="paths")
    async def plan(self, call: ApiCall) -> MigrationPlanResponse:
        """Preview the migration of old context files."""
        moves = _move_documents(await self._migration.plan(call.sight.sees))
        return {"moves": moves, "count": len(moves)}

    @post(_PATH, "vault", "admin", reach="paths")
    async def apply(self, call: ApiCall) -> ContextMigrationResponse:
        """Move old context files into folders, as one run that can be undone."""
        done = await self._migration.apply(call.sight.sees)
        return {"run": done.run, "moves": _move_documents(done.moves), "sessions": done.sessions}


def _move_documents(moves: Iterable[PlannedMove]) -> list[MigrationMoveResponse]:
    return [
        {
            "file": printable(move.file),
            "target": printable(move.target),
            "action": move.action,
            "sections": list(move.sections),
            "kept_as": printable(move.kept_as),
            "reason": move.reason,
        }
        for move in moves
    ]


_MODULE = "vault"
_SESSION = "/api/contexts/session/{id}"
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
    def __init__(
        self, index: VaultIndex, watches: WatchRegistry, sessions: SessionContexts
    ) -> None:
        self._index, self._watches, self._sessions = index, watches, sessions
        self._listing = ContextListing(index)

    @get(
        "/api/contexts/folders",
        _MODULE,
        "read",
        reach="paths",
        answers={200: ContextFoldersResponse},
    )
    async def folders(self, call: ApiCall) -> web.Response:
        """List the folders that have a context file."""
        if call.grant.alternatives is None:
            return web.Response(
                body=self._listing.body(), content_type="application/json", charset="utf-8"
            )
        return json_answer(self._listing.seen(call.sight.sees))

    @get("/api/contexts/chain", _MODULE, "read", reach="paths")
    async def chain(self, call: ApiCall, query: ChainQuery) -> ChainResponse:
        """Which context files a choice of folders loads, and why others are left out.

        An empty name means the vault itself.
        """
        choice = chosen_in(query.folders or [""], self._index)
        chain = await asyncio.to_thread(
            chain_of,
            choice,
            self._index,
            self._watches.watched_by,
            max_tokens=query.max_tokens,
            sees=call.sight.sees,
        )
        return chain_document(chain)

    @get(_SESSION, _MODULE, "read", reach="paths", answers={200: SessionContextsResponse})
    async def session(self, call: ApiCall) -> web.Response:
        """The contexts chosen for a session."""
        return self._session(call)

    @put(_SESSION, _MODULE, "write", reach="paths", answers={200: SessionContextsResponse})
    async def choose(self, call: ApiCall, body: ContextFoldersRequest) -> web.Response:
        """Replace a session's contexts.

        Contexts that the caller may not see stay.
        """
        names = body.folder_paths
        kept = [
            one.folder_path
            for one in self._sessions.of(_session_id(call))
            if not _is_seen(one.folder_path, call.sight)
        ]
        return self._keep(call, [*kept, *self._paths(names, call.sight)])

    @post(
        f"{_SESSION}/add",
        _MODULE,
        "write",
        reach="paths",
        answers={200: SessionContextsResponse},
    )
    async def add(self, call: ApiCall, body: ContextFolderRequest) -> web.Response:
        """Add contexts to a session."""
        paths = self._paths(_named(body), call.sight)
        return self._keep(
            call, [*(one.folder_path for one in self._sessions.of(_session_id(call))), *paths]
        )

    @post(
        f"{_SESSION}/remove",
        _MODULE,
        "write",
        reach="paths",
        answers={200: SessionContextsResponse},
    )
    async def remove(self, call: ApiCall, body: ContextFolderRequest) -> web.Response:
        """Remove contexts from a session.

        Folders that were not chosen are ignored.
        """
        paths = set(self._paths(_named(body), call.sight))
        chosen = [one.folder_path for one in self._sessions.of(_session_id(call))]
        return self._keep(call, [path for path in chosen if path not in paths])

    def _paths(self, names: Iterable[str], sight: AccessFilter) -> list[VaultPath]:
        """What the names mean.

        Raises NotFoundError for what is not the caller's to see, whether it is there or not.
        """
        choice = choice_of(names, self._index)
        paths = [*map(VaultPath, choice.folders), *choice.files]
        for path in paths:
            if not _is_seen(path, sight):
                raise unknown(path)
        return paths

    def _keep(self, call: ApiCall, paths: Iterable[VaultPath]) -> web.Response:
        wanted = list(dict.fromkeys(paths))
        if len(wanted) > MOST_CHOSEN:
            raise web.HTTPBadRequest(text=f"a session has at most {MOST_CHOSEN} contexts")
        self._sessions.choose(_session_id(call), wanted, call.identity.id)
        return self._session(call)

    def _session(self, call: ApiCall) -> web.Response:
        session = _session_id(call)
        chosen = [
            one for one in self._sessions.of(session) if _is_seen(one.folder_path, call.sight)
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
            sight.sees(file) and self._index.get(file) is not None for file in _files_of(path)
        )


def chosen_in(texts: Iterable[str], index: VaultIndex) -> ContextSelection:
    names = names_in(texts, index)
    if len(names) > MOST_CHOSEN:
        raise web.HTTPBadRequest(text=f"at most {MOST_CHOSEN} contexts may be named at once")
    return choice_of(names, index)


def chain_document(chain: Chain) -> ChainResponse:
    files: list[ChainFileResponse] = [
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
