"""Sync: what a device has to ask to keep a copy of a folder, and to bring back what was changed
there.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, TypeAlias

from aiohttp import web
from pydantic import Field

from parachuted.api.http.answers import json_answer, json_bytes, pieced_answer
from parachuted.api.http.decorators import delete, get, post
from parachuted.api.http.route import ApiCall, AppRequestModel, FolderParameter, readable
from parachuted.api.routes.note_writer import NoteWriter
from parachuted.api.routes.sync_files import (
    Pull,
    PullResponse,
    Push,
    PushResponse,
    Removal,
    SyncChangesResponse,
    SyncDeleteResponse,
    SyncManifestResponse,
)
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.sync import (
    BINARY_SUFFIXES,
    DeletionCounter,
    FileDigests,
    FolderListing,
    ListingQuery,
    ListingRow,
    ListingView,
)
from parachuted.vault import Store, VaultIndex

_MOST_PATHS = 1_000
_MOST_FILES = 500
_MOST_VIEWS = 12
_LARGEST_PUSH = 64 << 20
_LAST_SECOND = 1e11
_PIECE = 10
_Digest = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]
_BINARY = ", ".join(suffix.removeprefix(".") for suffix in BINARY_SUFFIXES)
_Pattern = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        examples=["*.md"],
        description="names of files, as in a shell (`*`, `?`, `[ab]`); without it, every file "
        "below the root that is not hidden",
    ),
]
_Binary = Annotated[
    bool,
    Field(description=f"beside the files that `pattern` matches, also those that end in {_BINARY}"),
]
_Date = Annotated[
    str,
    Field(
        pattern=r"^(\d{4}-\d{2}-\d{2})?$",
        description="only files with this text, a day as YYYY-MM-DD, in their path",
    ),
]
_Quick = Annotated[
    bool,
    Field(
        description="do not read files for this: the `hash` of a file that is not a note may then "
        "be a text that changes with it, and not a SHA-256"
    ),
]
_Flag: TypeAlias = bool


class ManifestQuery(AppRequestModel):
    """Which files: those that `pattern` matches, with `include_binary` those of binary kinds too;
    of these, those that `date` names.
    """

    root: FolderParameter = Field(default="", validate_default=True)
    pattern: _Pattern = "*"
    include_binary: _Binary = False
    date: _Date = ""
    quick: _Quick = False


class ChangesQuery(AppRequestModel):
    """Which files, as for the manifest; deletions show in the manifest alone."""

    root: FolderParameter = Field(default="", validate_default=True)
    since: Annotated[
        float,
        Field(
            ge=0,
            le=_LAST_SECOND,
            allow_inf_nan=False,
            description="only files that changed at this moment, in Unix seconds, or later",
        ),
    ] = 0.0
    pattern: _Pattern = "*"
    include_binary: _Binary = False


class PushedFileRequest(AppRequestModel):
    """One file: its text, or base64 of its bytes.

    `base_hash`: the SHA-256 of the text that it was made from.
    """

    path: str
    content: str
    is_binary: Annotated[bool, Field(strict=True)] = False
    base_hash: _Digest | None = None


class PushRequest(AppRequestModel):
    """Files to put below the root."""

    root: FolderParameter = Field(default="", validate_default=True)
    files: Annotated[list[PushedFileRequest], Field(max_length=_MOST_FILES)]


class PullRequest(AppRequestModel):
    """Files to have, relative to the root."""

    root: FolderParameter = Field(default="", validate_default=True)
    paths: Annotated[list[str], Field(max_length=_MOST_PATHS)]


class DeleteQuery(AppRequestModel):
    """Files to delete, relative to the root."""

    root: FolderParameter = Field(default="", validate_default=True)
    paths: Annotated[
        list[str],
        Field(
            max_length=_MOST_PATHS,
            description="one file; say it again for each more: paths=a.md&paths=b.md",
        ),
    ]
    confirm: _Flag = False


class SyncRoutes:
    """The routes of sync.

    Listings are answered from the index; what is overwritten or deleted goes to history.
    """

    def __init__(
        self,
        store: Store,
        index: VaultIndex,
        writer: NoteWriter,
        digests: FileDigests,
        elapsed: Callable[[], datetime],
    ) -> None:
        """`elapsed` is a time that no jump of the wall clock moves."""
        self._store, self._index, self._writer, self._digests = store, index, writer, digests
        self._deletions = DeletionCounter(elapsed)
        self._views: OrderedDict[ListingQuery, ListingView] = OrderedDict()

    @get(
        "/api/sync/manifest",
        "vault",
        "read",
        reach="paths",
        answers={200: SyncManifestResponse},
    )
    async def manifest(self, call: ApiCall, query: ManifestQuery) -> web.Response:
        """List the files below a folder, with their digests."""
        view = await self._view(
            call, query.root, query.pattern, include_binary=query.include_binary, quick=query.quick
        )
        if query.date:
            return json_answer(
                {
                    "files": [
                        _row(row)
                        for part in view.parts()
                        for row in part.rows
                        if query.date in row.path
                    ]
                }
            )
        if view.encoded is None:
            view.encoded = b",".join([_encoded(part) for part in view.parts()])
        return pieced_answer("files", [view.encoded])

    @get("/api/sync/changes", "vault", "read", reach="paths")
    async def changes(self, call: ApiCall, query: ChangesQuery) -> SyncChangesResponse:
        """List the files below a folder that changed since a time."""
        since = int(query.since * 1e9)
        view = await self._view(
            call, query.root, query.pattern, include_binary=query.include_binary, quick=True
        )
        rows = [
            row
            for part in view.parts(since_ns=since)
            for row in part.rows
            if row.changed_ns >= since
        ]
        return {
            "files": [
                {"path": row.path, "size": row.size, "modified": row.modified} for row in rows
            ]
        }

    @post("/api/sync/push", "vault", "write", reach="paths", largest_body=_LARGEST_PUSH)
    async def push(self, call: ApiCall, body: PushRequest) -> PushResponse:
        """Write files below a folder, each merged with changes here since its base."""
        pushing = Push(
            store=self._store,
            sight=call.sight,
            readable=readable(call.identity),
            author=self._writer.author(call.caller),
            root=body.root,
        )
        for file in body.files:
            await run_uninterrupted(
                pushing.put,
                file.path,
                file.content,
                is_binary=file.is_binary,
                base=file.base_hash and file.base_hash.lower(),
            )
        call.touched.extend(pushing.touched)
        await self._writer.tell(pushing.touched)
        return pushing.response()

    @post("/api/sync/pull", "vault", "read", reach="paths")
    async def pull(self, call: ApiCall, body: PullRequest) -> PullResponse:
        """Read files below a folder.

        After the answer, the texts are kept as bases that a push may name.
        """
        pulling = Pull(
            root=body.root, vault=self._store.root, bases=self._store.bases, sight=call.sight
        )
        answer = await asyncio.to_thread(pulling.read, body.paths)
        call.touched.extend(pulling.touched)
        asyncio.get_running_loop().run_in_executor(None, pulling.keep)
        return answer

    @delete("/api/sync/files", "vault", "write", reach="paths")
    async def remove(self, call: ApiCall, query: DeleteQuery) -> SyncDeleteResponse:
        """Delete files below a folder; history keeps them."""
        removal = Removal(
            store=self._store,
            sight=call.sight,
            author=self._writer.author(call.caller),
            root=query.root,
        )
        paths, files = (
            await asyncio.to_thread(removal.existing, query.paths),
            await self._count(call),
        )
        if not query.confirm and self._deletions.needs_confirming(
            call.identity.id, len(paths), files
        ):
            message = (
                f"{len(paths)} of {files} files are over a fifth of the vault, counting "
                "what was deleted in the last minutes; "
            )
            return removal.response(
                message=f"{message}nothing was deleted: ask again with confirm=true if it is meant"
            )
        for start in range(0, len(paths), _PIECE):
            gone = await run_uninterrupted(removal.remove, paths[start : start + _PIECE])
            if not query.confirm:
                self._deletions.remember(call.identity.id, len(gone))
            call.touched.extend(gone)
            await self._writer.tell(gone)
        return removal.response()

    async def _count(self, call: ApiCall) -> int:
        if call.grant.alternatives is None:
            return len(self._index)
        paths = list(self._index.paths())
        return await asyncio.to_thread(lambda: sum(map(call.sight.sees, paths)))

    async def _view(
        self, call: ApiCall, root: str, pattern: str, *, include_binary: bool, quick: bool
    ) -> ListingView:
        asked = ListingQuery(
            root=root, pattern=pattern, include_binary=include_binary, quick=quick, whose=call.grant
        )
        view = self._views.get(asked)
        if view is None:
            view = self._views[asked] = ListingView(
                self._index, asked, call.sight, self._digests.known
            )
        self._views.move_to_end(asked)
        while len(self._views) > _MOST_VIEWS:
            self._views.popitem(last=False)
        missing = await view.refresh()
        if missing:
            await view.refresh(await asyncio.to_thread(self._digests.learn, missing))
        return view


def _encoded(part: FolderListing) -> bytes:
    """The rows of a folder as they are sent, made once."""
    if part.encoded is None:
        part.encoded = json_bytes([_row(row) for row in part.rows])[1:-1]
    return part.encoded


def _row(row: ListingRow) -> dict[str, object]:
    return {"path": row.path, "hash": row.hash, "size": row.size, "modified": row.modified}
