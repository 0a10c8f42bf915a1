"""Sync: keep a copy of a folder on a device, and bring back what was changed there."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from parachuted.access.filter import AccessFilter
from parachuted.api.http.decorators import delete, get, post
from parachuted.api.http.route import ApiCall, AppRequestModel, FolderParameter
from parachuted.api.routes.note_changes import author_of, keep_bases, put_file, refuse_programs
from parachuted.errors import ConflictError, NotFoundError, ParachuteError, PathRefusedError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.sync import (
    BINARY_SUFFIXES,
    FileDigests,
    ListedFile,
    ListingQuery,
    can_be_merged,
    list_files,
)
from parachuted.vault import Author, Store, VaultIndex, VaultPath, digest_of, printable

_MOST_PATHS, _MOST_FILES = 1_000, 500
_LARGEST_PUSH = _LARGEST_PULL = 64 << 20
_LAST_SECOND = 1e11
_PIECE = 10
_SHARE = 5  # no more than a fifth of the vault is deleted unconfirmed
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


@dataclass(frozen=True, slots=True)
class SyncFile:
    """`hash` is the SHA-256 in hex; of a quick listing, any text that changes with the file."""

    path: str
    hash: str
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class ChangedFile:
    path: str
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class PushedFile:
    """`hash`: what stands there now. `message`: why it was refused.

    `status`: created, written, merged, unchanged, conflict or refused. `replaced`: the digest of
    what was overwritten with no base to compare it with; history has it.
    """

    path: str
    status: str
    hash: str | None = None
    replaced: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class PushConflict:
    """A file that changed here too: both texts, and their base where known; base64 if binary.

    `theirs_hash` is the base to name when the file is pushed again.
    """

    path: str
    base: str | None
    ours: str
    theirs: str
    theirs_hash: str
    is_binary: bool


@dataclass(frozen=True, slots=True)
class PushResult:
    """`pushed` counts files that are as the device sent them, or merged."""

    pushed: int
    errors: list[str]
    results: list[PushedFile]
    conflicts: list[PushConflict]


@dataclass(frozen=True, slots=True)
class PulledFile:
    """`content` is base64 when it is binary."""

    path: str
    content: str
    is_binary: bool
    hash: str
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class PullResult:
    files: list[PulledFile]
    errors: list[str]


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """`confirm_needed`: nothing was deleted, since it would be over a fifth of the vault."""

    deleted: int
    errors: list[str]
    confirm_needed: bool = False
    message: str | None = None


class _Rooted(AppRequestModel):
    root: FolderParameter = Field(default="", validate_default=True)


class ManifestQuery(_Rooted):
    """`include_binary` adds files of binary kinds; `date` picks from all of these."""

    pattern: _Pattern = "*"
    include_binary: _Binary = False
    date: Annotated[
        str,
        Field(
            pattern=r"^(\d{4}-\d{2}-\d{2})?$",
            description="only files with this text, a day as YYYY-MM-DD, in their path",
        ),
    ] = ""
    quick: Annotated[
        bool,
        Field(
            description="do not read files for this: the `hash` of a file that is not a note may "
            "then be a text that changes with it, and not a SHA-256"
        ),
    ] = False


class ChangesQuery(_Rooted):
    """Deletions show in the manifest alone."""

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
    """A text, or base64 of bytes. `base_hash`: the SHA-256 of the text that it was made from."""

    path: str
    content: str
    is_binary: Annotated[bool, Field(strict=True)] = False
    base_hash: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")] | None = None


class PushRequest(_Rooted):
    files: Annotated[list[PushedFileRequest], Field(max_length=_MOST_FILES)]


class PullRequest(_Rooted):
    """Paths are relative to the root."""

    paths: Annotated[list[str], Field(max_length=_MOST_PATHS)]


class DeleteQuery(_Rooted):
    paths: Annotated[
        list[str],
        Field(
            max_length=_MOST_PATHS,
            description="one file; say it again for each more: paths=a.md&paths=b.md",
        ),
    ]
    confirm: bool = False


class SyncRoutes:
    def __init__(self, store: Store, index: VaultIndex, digests: FileDigests) -> None:
        self._store, self._index, self._digests = store, index, digests

    @get("/api/sync/manifest", "vault", "read", for_path_keys=True, wrapped="files")
    async def manifest(self, call: ApiCall, query: ManifestQuery) -> list[SyncFile]:
        """List the files below a folder, with their digests."""
        files = await self._list(call, query, date=query.date)
        known = {file.place: self._digests.known(file.place, file.entry) for file in files}
        if not query.quick:
            unknown = [place for place, digest in known.items() if digest is None]
            known |= await asyncio.to_thread(self._digests.learn, unknown)
        return [
            SyncFile(
                file.path,
                known[file.place] or file.state,  # the state alone where it could not be read
                file.entry.size,
                file.entry.mtime_ns / 1e9,
            )
            for file in files
        ]

    @get("/api/sync/changes", "vault", "read", for_path_keys=True, wrapped="files")
    async def changes(self, call: ApiCall, query: ChangesQuery) -> list[ChangedFile]:
        """List the files below a folder that changed since a time."""
        return [
            ChangedFile(file.path, file.entry.size, file.entry.mtime_ns / 1e9)
            for file in await self._list(call, query, since_ns=int(query.since * 1e9))
        ]

    @post("/api/sync/push", "vault", "write", for_path_keys=True, largest_body=_LARGEST_PUSH)
    async def push(self, call: ApiCall, body: PushRequest) -> PushResult:
        """Write files below a folder, each merged with changes here since its base."""
        author, pushed = author_of(self._store, call), PushResult(0, [], [], [])
        for file in body.files:
            result, conflict = await run_uninterrupted(self._put, call, author, body.root, file)
            pushed.results.append(result)
            if conflict is not None:
                pushed.conflicts.append(conflict)
            elif result.status == "refused":
                pushed.errors.append(f"{result.path}: {result.message}")
        await self._store.notice(call.touched)
        count = len(pushed.results) - len(pushed.errors) - len(pushed.conflicts)
        return replace(pushed, pushed=count)

    @post("/api/sync/pull", "vault", "read", for_path_keys=True)
    async def pull(self, call: ApiCall, body: PullRequest) -> PullResult:
        """Read files below a folder.

        After the answer, the texts are kept as bases that a push may name.
        """
        pulled, texts = await asyncio.to_thread(self._pull, call, body)
        asyncio.get_running_loop().run_in_executor(None, keep_bases, self._store, texts)
        return pulled

    @delete("/api/sync/files", "vault", "write", for_path_keys=True)
    async def remove(self, call: ApiCall, query: DeleteQuery) -> DeleteResult:
        """Delete files below a folder; history keeps them."""
        errors, deleted = list[str](), 0
        paths = await asyncio.to_thread(_existing, call.files, query, errors)
        files = await self._count(call)
        if not query.confirm and len(paths) > 1 and len(paths) * _SHARE > files:
            message = (
                f"{len(paths)} of {files} files are over a fifth of the vault; nothing was "
                "deleted: ask again with confirm=true if it is meant"
            )
            return DeleteResult(0, errors, confirm_needed=True, message=message)
        author = author_of(self._store, call)
        for start in range(0, len(paths), _PIECE):
            piece = paths[start : start + _PIECE]
            gone = await run_uninterrupted(self._remove, piece, author, errors)
            deleted += len(gone)
            call.touched.extend(gone)
            await self._store.notice(gone)
        return DeleteResult(deleted, errors)

    def _put(
        self, call: ApiCall, author: Author, root: VaultPath, file: PushedFileRequest
    ) -> tuple[PushedFile, PushConflict | None]:
        """Never fails: the result says what is wrong. Blocks on the disk."""
        path, base, can_read = printable(file.path), file.base_hash, call.reading.sees
        try:
            place = call.files.find(_under(root, file.path))
            refuse_programs(place)
            data = _bytes(file.content, is_binary=file.is_binary)
            put = put_file(self._store, call, author, place, data, base and base.lower())
        except ConflictError as error:
            # texts of the vault are for who may read them: to write is not to read
            is_binary = not can_be_merged(error.base, error.ours, error.theirs)
            texts = (error.base, error.ours, error.theirs)
            if not can_read(place):
                texts = (b"", error.ours, b"")
            before, ours, theirs = (_text(data, is_binary=is_binary) for data in texts)
            digest = digest_of(error.theirs)
            conflict = PushConflict(path, before or None, ours, theirs, digest, is_binary)
            message = "it changed here too; both texts are under conflicts"
            return PushedFile(path, "conflict", digest, message=message), conflict
        except ParachuteError as error:
            return PushedFile(path, "refused", message=error.message), None
        if put.outcome != "unchanged":
            call.touched.append(put.path)
        return PushedFile(path, put.outcome, put.hash, put.replaced), None

    def _pull(
        self, call: ApiCall, request: PullRequest
    ) -> tuple[PullResult, list[tuple[str, bytes]]]:
        """At most 64 MB at once."""
        pulled, texts, room = PullResult([], []), list[tuple[str, bytes]](), _LARGEST_PULL
        for path in dict.fromkeys(request.paths):
            try:
                place = call.files.find(_under(request.root, path))
                if self._store.root.size(place) > room:
                    raise PathRefusedError(
                        f"it is too large for this answer; GET /api/files/{printable(place)} "
                        "streams it"
                    )
                content = self._store.root.read(place)
            except ParachuteError as error:
                pulled.errors.append(f"{printable(path)}: {error.message}")
                continue
            data, modified = content.data, content.status.st_mtime_ns / 1e9
            room -= len(data)
            call.touched.append(place)
            texts.append((place, data))
            is_binary = path.lower().endswith(BINARY_SUFFIXES) or not can_be_merged(data)
            text = _text(data, is_binary=is_binary)
            pulled.files.append(
                PulledFile(printable(path), text, is_binary, content.digest, len(data), modified)
            )
        return pulled, texts

    def _remove(
        self, paths: Iterable[VaultPath], author: Author, errors: list[str]
    ) -> list[VaultPath]:
        gone = []
        for path in paths:
            try:
                gone.append(self._store.delete(path, author).path)
            except NotFoundError:
                continue
            except ParachuteError as error:
                errors.append(f"{printable(path)}: {error.message}")
        return gone

    async def _count(self, call: ApiCall) -> int:
        if call.grant.alternatives is None:
            return len(self._index)
        paths = list(self._index.paths())
        return await asyncio.to_thread(lambda: sum(map(call.files.sees, paths)))

    async def _list(
        self,
        call: ApiCall,
        query: ManifestQuery | ChangesQuery,
        *,
        date: str = "",
        since_ns: int = 0,
    ) -> list[ListedFile]:
        listing_query = ListingQuery(
            root=query.root,
            pattern=query.pattern,
            include_binary=query.include_binary,
            date=date,
            since_ns=since_ns,
        )
        return await list_files(self._index, listing_query, call.files.sees)


def _existing(access: AccessFilter, query: DeleteQuery, errors: list[str]) -> Sequence[VaultPath]:
    """Those that are there; missing, hidden and forbidden ones are reported in the same words."""
    found: dict[VaultPath, None] = {}
    for path in dict.fromkeys(query.paths):
        try:
            place = _under(query.root, path)
            refuse_programs(access.find(place))
            access.root.size(place)
        except NotFoundError:
            errors.append(f"{printable(path)}: unknown file below the root")
        except ParachuteError as error:
            errors.append(f"{printable(path)}: {error.message}")
        else:
            found[place] = None
    return list(found)


def _under(root: VaultPath, path: str) -> VaultPath:
    return VaultPath.parse(f"{root}/{VaultPath.parse(path)}" if root else path)


def _bytes(content: str, *, is_binary: bool) -> bytes:
    try:
        return base64.b64decode(content, validate=True) if is_binary else content.encode("utf-8")
    except (binascii.Error, ValueError) as error:  # UnicodeEncodeError is a ValueError
        raise PathRefusedError(
            "the content is not base64" if is_binary else "the content is not UTF-8"
        ) from error


def _text(data: bytes, *, is_binary: bool) -> str:
    return base64.b64encode(data).decode() if is_binary else data.decode("utf-8")
