"""Contexts: folders with a context file, what is chosen for a session, and their migration."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from aiohttp import web
from pydantic import Field, PlainValidator, WithJsonSchema

from parachuted.access.filter import unknown
from parachuted.access.private_text import without_private
from parachuted.api.flutter import PromptMetadata, prompt_metadata
from parachuted.api.http.decorators import get, post, put
from parachuted.api.http.route import ApiCall, AppRequestModel, Whole
from parachuted.bubbling import WatchRegistry
from parachuted.context import (
    DEFAULT_TOKENS,
    LARGEST_FILE,
    MOST_CHOSEN,
    Chain,
    ContextAssembly,
    ContextFolder,
    ContextSelection,
    SessionContext,
    SessionContexts,
    chain_of,
    choice_of,
    context_folders,
    names_in,
)
from parachuted.errors import PathRefusedError
from parachuted.events.watched_vault import WatchedVault
from parachuted.tools.migration import Migration, MigrationResult, PlannedMove
from parachuted.vault import CONTEXT_NAMES, VaultIndex, VaultPath, printable

_MODULE = "vault"
_SESSION = "/api/contexts/session/{id}"
_MIGRATION = "/api/contexts/migration"
_AGENTS = ".agents"
_LONGEST_ID = 200
_LONGEST_NAME = 4_096
_LONGEST_LIST = 100_000
_MOST_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenContexts:
    """`contexts` says the same with times; `missing` are those without a context file now."""

    session_id: str
    folder_paths: list[VaultPath]
    missing: list[VaultPath]
    contexts: Sequence[SessionContext]


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


class ContextFoldersRequest(AppRequestModel):
    """Folders; older programs name files, too."""

    folder_paths: Annotated[tuple[ContextName, ...], Field(max_length=MOST_CHOSEN)]


class ContextRoutes:
    def __init__(
        self, index: VaultIndex, watches: WatchRegistry, sessions: SessionContexts
    ) -> None:
        self._index, self._watches, self._sessions = index, watches, sessions

    @get("/api/contexts/folders", _MODULE, "read", wrapped="folders", counted=True)
    async def folders(self) -> list[ContextFolder]:
        """List the folders that have a context file."""
        return context_folders(self._index)

    @get("/api/contexts/chain", _MODULE, "read")
    async def chain(
        self,
        call: ApiCall,
        folders: NameLists = (),
        max_tokens: Annotated[Whole, Field(ge=1, le=10_000_000)] | None = None,
    ) -> Chain:
        """Which context files a choice of folders loads, and why others are left out.

        `folders` are folders or files: several names, or one text with commas between them. An
        empty name means the vault itself.
        """
        return await asyncio.to_thread(
            chain_of,
            _chosen_in(folders or [""], self._index),
            self._index,
            self._watches.watched_by,
            max_tokens=max_tokens,
            sees=call.files.sees,
        )

    @get(_SESSION, _MODULE, "read")
    async def session(self, id_: str) -> ChosenContexts:
        """The contexts chosen for a session."""
        _check_session(id_)
        chosen = self._sessions.of(id_)
        paths = [context.folder_path for context in chosen]
        missing = [
            path for path in paths if all(self._index.get(file) is None for file in _files_of(path))
        ]
        return ChosenContexts(session_id=id_, folder_paths=paths, missing=missing, contexts=chosen)

    @put(_SESSION, _MODULE, "write")
    async def choose(self, call: ApiCall, id_: str, body: ContextFoldersRequest) -> ChosenContexts:
        """Replace a session's contexts. 404 for a hidden place."""
        _check_session(id_)
        choice = choice_of(body.folder_paths, self._index)
        paths = [*map(VaultPath, choice.folders), *choice.files]
        for path in paths:
            if not any(map(call.files.sees, _files_of(path))):
                raise unknown(path)
        self._sessions.choose(id_, list(dict.fromkeys(paths)))
        return await self.session(id_)


class ContextMigrationRoutes:
    def __init__(self, migration: Migration) -> None:
        self._migration = migration

    @get(_MIGRATION, _MODULE, "admin", wrapped="moves", counted=True)
    async def plan(self, call: ApiCall) -> Sequence[PlannedMove]:
        """Preview the migration of old context files."""
        return self._migration.plan(call.files.sees)

    @post(_MIGRATION, _MODULE, "admin")
    async def apply(self, call: ApiCall) -> MigrationResult:
        """Move old context files into folders, as one run that can be undone."""
        return await self._migration.apply(call.files.sees)


class PromptRoutes:
    def __init__(self, watched: WatchedVault, watches: WatchRegistry) -> None:
        self._root, self._index = watched.root, watched.index
        self._vault = watched.settings.vault  # as the settings name it, links unresolved
        self._prompts = ContextAssembly(watched.index, watches.watched_by)

    @get("/api/prompt/preview", _MODULE, "read", for_app=True)
    async def preview(
        self,
        call: ApiCall,
        working_directory: ContextName = "",
        agent_path: ContextName = "",
        contexts: NameLists = (),
        max_tokens: Annotated[Whole, Field(ge=1, le=_MOST_TOKENS)] = DEFAULT_TOKENS,
    ) -> PromptMetadata:
        """Preview the prompt of an agent.

        `working_directory`: a folder of the vault, by its path there or on the disk.
        """

        def text_of(path: VaultPath) -> str:
            data, _ = self._root.read_head(call.files.find(path), LARGEST_FILE + 1)
            return without_private(data).decode("utf-8", "replace").removeprefix("\ufeff")

        preview = await self._prompts.preview(
            _chosen_in([text for text in contexts if text], self._index),
            working_directory=self._folder(working_directory),
            agent=VaultPath.parse(agent_path) if agent_path else None,
            max_tokens=max_tokens,
            sees=call.files.sees,
            read=lambda path: asyncio.to_thread(text_of, path),
        )
        agents = sorted(name for name in self._index.files(_AGENTS) if name.endswith(".md"))
        return prompt_metadata(preview, [printable(name.removesuffix(".md")) for name in agents])

    def _folder(self, text: str) -> VaultPath | None:
        """A folder by its path in the vault or on the disk. Raises PathRefusedError."""
        if not text:
            return None
        for vault in (self._vault, self._root.folder):
            if text.startswith("/") and Path(text).is_relative_to(vault):
                text = str(Path(text).relative_to(vault))
        if text.startswith("/"):
            raise PathRefusedError("the working directory is not in the vault")
        return VaultPath("") if text == "." else VaultPath.parse(text.rstrip("/"))


def _chosen_in(texts: Iterable[str], index: VaultIndex) -> ContextSelection:
    names = names_in(texts, index)
    if len(names) > MOST_CHOSEN:
        raise web.HTTPBadRequest(text=f"at most {MOST_CHOSEN} contexts may be named at once")
    return choice_of(names, index)


def _check_session(name: str) -> None:
    if len(name) > _LONGEST_ID or not name.isprintable() or not name.strip():
        raise web.HTTPBadRequest(
            text=f"a session's id is a text of at most {_LONGEST_ID} printable characters"
        )


def _files_of(path: VaultPath) -> list[str]:
    """That file, or the folder's context files."""
    return (
        [path]
        if path.endswith(".md")
        else [f"{path}/{name}" if path else name for name in CONTEXT_NAMES]
    )
