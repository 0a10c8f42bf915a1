"""Files: the folders and files of the vault as a file browser and an editor ask for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
from typing import Annotated

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.http.answers import json_answer
from parachuted.api.http.decorators import get, put
from parachuted.api.http.file_answers import WRITING, expected
from parachuted.api.http.route import (
    ApiCall,
    AppRequestModel,
    FolderParameter,
    Path,
    readable,
    refuse_watching_beyond,
)
from parachuted.api.routes.note_writer import NoteWriter, refuse_programs_but_to_admins
from parachuted.errors import ConflictError, NotFoundError, PathRefusedError, StorageFailedError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.sync import PutResult, can_be_merged, put_whole
from parachuted.times import Time, moment
from parachuted.vault import FileContent, Store, VaultPath, named_errors, printable, refusal


class FolderEntryResponse(TypedDict):
    """A file, a folder or a link in a folder.

    `symlinkTarget` is where a link leads; `size` is in bytes, of files only.
    """

    name: str
    type: str
    path: str
    relativePath: str
    isDirectory: bool
    isSymlink: bool
    symlinkTarget: str | None
    hasAgentsMd: bool
    hasClaudeMd: bool
    isGitRepo: bool
    lastModified: Time | None
    size: int | None


class FolderResponse(TypedDict):
    """What is in a folder: folders first, each kind by name."""

    path: str
    entries: list[FolderEntryResponse]


class FileReadResponse(TypedDict):
    """A text. `hash` is its SHA-256 in hex, and the base to name when it is written."""

    path: str
    content: str
    size: int
    lastModified: Time
    hash: str


class FileWriteResponse(TypedDict):
    """A text that was written.

    `replaced`: the digest of one that was overwritten with no base to compare it with; history has
    it.
    """

    success: bool
    path: str
    size: int
    lastModified: Time
    hash: str
    merged: bool
    replaced: str | None


class FileUploadResponse(TypedDict):
    """A file that was put in its place.

    `replaced`: the digest of what was overwritten; history has it.
    """

    path: str
    size: int
    hash: str
    created: bool
    replaced: str | None


def list_folder(folder: VaultPath, sight: AccessFilter) -> list[FolderEntryResponse]:
    """The entries, folders first.

    Links that leave the vault, or lead to nothing the caller may see, do not exist. Blocks on the
    disk.

    Raises NotFoundError where the folder does not exist for the caller.
    """
    real = _found(folder, sight)
    try:
        with (
            named_errors(folder),
            sight.root.opened_folder(real) as descriptor,
            os.scandir(descriptor) as found,
        ):
            names = sorted(entry.name for entry in found)
            entries = [
                _entry(folder, real, name, descriptor, sight)
                for name in names
                if refusal(f"x/{name}") is None
            ]
    except PathRefusedError as error:
        raise unknown(folder) from error
    return sorted(
        (entry for entry in entries if entry is not None),
        key=lambda entry: not entry["isDirectory"],
    )


def _found(folder: VaultPath, sight: AccessFilter) -> VaultPath:
    if not folder:
        return folder
    if sight.enters(folder):
        with contextlib.suppress(PathRefusedError):
            real = sight.root.resolve(folder)
            if real == folder or sight.enters(real):
                return real
    raise unknown(folder)


def _entry(
    shown: VaultPath, folder: VaultPath, name: str, descriptor: int, sight: AccessFilter
) -> FolderEntryResponse | None:
    path = VaultPath(f"{folder}/{name}" if folder else name)
    try:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return None
    target = None
    if stat.S_ISLNK(status.st_mode):
        found = _target(path, sight)
        if found is None:
            return None
        target, status = found
    if stat.S_ISDIR(status.st_mode):
        is_folder = True
    elif stat.S_ISREG(status.st_mode):
        is_folder = False
    else:
        return None
    if not (sight.enters(path) if is_folder else sight.sees(path)):
        return None
    place = printable(f"{shown}/{name}" if shown else name)
    entry: FolderEntryResponse = {
        "name": printable(name),
        "type": "symlink" if target is not None else "directory" if is_folder else "file",
        "path": place,
        "relativePath": place,
        "isDirectory": is_folder,
        "isSymlink": target is not None,
        "symlinkTarget": None if target is None else printable(target),
        "hasAgentsMd": False,
        "hasClaudeMd": False,
        "isGitRepo": False,
        "lastModified": moment(status.st_mtime),
        "size": None if is_folder else status.st_size,
    }
    if is_folder:
        _look_inside(entry, path if target is None else target, sight)
    return entry


def _target(path: VaultPath, sight: AccessFilter) -> tuple[VaultPath, os.stat_result] | None:
    """Where a link leads, if that is in the vault and for the caller to see."""
    try:
        target = sight.root.resolve(path)
        with sight.root.opened_folder(target.folder) as folder:
            status = os.stat(target.name, dir_fd=folder, follow_symlinks=False)
    except (OSError, PathRefusedError, NotFoundError):
        return None
    is_seen = sight.enters(target) if stat.S_ISDIR(status.st_mode) else sight.sees(target)
    return (target, status) if is_seen else None


def _look_inside(entry: FolderEntryResponse, folder: VaultPath, sight: AccessFilter) -> None:
    """Tell what a folder is by a few names in it."""
    with contextlib.suppress(OSError), sight.root.opened_folder(folder) as descriptor:
        entry["isGitRepo"] = _has(descriptor, ".git")
        entry["hasAgentsMd"] = sight.sees(f"{folder}/AGENTS.md") and _has(descriptor, "AGENTS.md")
        entry["hasClaudeMd"] = sight.sees(f"{folder}/CLAUDE.md") and _has(descriptor, "CLAUDE.md")


def _has(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


log = logging.getLogger(__name__)

_LARGEST_TEXT = 10 << 20


class ListQuery(AppRequestModel):
    """Which folder; hidden files are not shown whatever `includeHidden` says."""

    path: FolderParameter = Field(default="", validate_default=True)
    include_hidden: bool = False


class ReadQuery(AppRequestModel):
    """Which file."""

    path: Path


class WriteFileRequest(AppRequestModel):
    """A whole text.

    `base_hash`, or the header If-Match: the SHA-256 of the text that it was made from.
    """

    path: Path
    content: Annotated[str, Field(max_length=_LARGEST_TEXT)]
    base_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


class FileRoutes:
    def __init__(self, store: Store, writer: NoteWriter) -> None:
        self._store, self._writer = store, writer

    @get("/api/ls", "vault", "read", reach="paths")
    async def list(self, call: ApiCall, query: ListQuery) -> FolderResponse:
        """List a folder."""
        folder = query.path
        return {
            "path": printable(folder),
            "entries": await asyncio.to_thread(list_folder, folder, call.sight),
        }

    @get("/api/read", "vault", "read", reach="paths", answers={200: FileReadResponse})
    async def read(self, call: ApiCall, query: ReadQuery) -> web.Response:
        """Read a text, with its digest.

        After the answer, the text is kept as a base that a write may name.
        """
        path = query.path
        call.touched.append(path)
        real, content = await asyncio.to_thread(self._read, path, call)
        if not can_be_merged(content.data):
            raise web.HTTPUnsupportedMediaType(
                text=f"{printable(path)} is not text; GET /api/files/{printable(path)} streams any "
                "file"
            )
        asyncio.get_running_loop().run_in_executor(None, self._keep, real, content)
        answer: FileReadResponse = {
            "path": printable(path),
            "content": content.data.decode(),
            "size": len(content.data),
            "lastModified": moment(content.status.st_mtime),
            "hash": content.digest,
        }
        return json_answer(answer, headers={"ETag": f'"{content.digest}"'})

    @put(
        "/api/write",
        "vault",
        "write",
        reach="paths",
        answers={200: FileWriteResponse},
        headers=WRITING,
        largest_body=6 * _LARGEST_TEXT,
    )
    async def write(self, call: ApiCall, body: WriteFileRequest) -> web.Response:
        """Write a whole text, merged with changes since its base."""
        path = await asyncio.to_thread(call.sight.find, body.path)
        refuse_programs_but_to_admins(path, call.identity)
        base = body.base_hash or expected(call)
        data = _encoded(body.content)
        await asyncio.to_thread(
            refuse_watching_beyond,
            readable(call.identity),
            self._store,
            path,
            lambda _before: data,
        )
        try:
            put = await run_uninterrupted(
                put_whole,
                self._store,
                path,
                data,
                self._writer.author(call.caller),
                base=base,
                sees=call.reading.sees,
            )
        except ConflictError as error:
            raise call.conflict(error, path) from None
        call.touched.append(path)
        await self._writer.tell([path])
        return json_answer(
            await asyncio.to_thread(self._response, body.path, put),
            headers={"ETag": f'"{put.hash}"'},
        )

    def _read(self, path: VaultPath, call: ApiCall) -> tuple[VaultPath, FileContent]:
        real = call.sight.find(path)
        try:
            size = self._store.root.size(real)
            if size <= _LARGEST_TEXT:
                return real, self._store.root.read(real)
        except NotFoundError as error:
            raise unknown(path) from error  # which does not tell where a link leads
        text = (
            f"{printable(path)} is larger than {_LARGEST_TEXT >> 20} MB; GET "
            f"/api/files/{printable(path)} streams it"
        )
        raise web.HTTPRequestEntityTooLarge(max_size=_LARGEST_TEXT, actual_size=size, text=text)

    def _keep(self, path: VaultPath, content: FileContent) -> None:
        try:
            self._store.bases.keep(path, content.data)
        except StorageFailedError as error:
            log.warning(
                "a text that was read could not be kept as a base", extra={"error": error.message}
            )

    def _response(self, path: VaultPath, put: PutResult) -> FileWriteResponse:
        content = self._store.root.read(put.path)
        return {
            "success": True,
            "path": printable(path),
            "size": len(content.data),
            "lastModified": moment(content.status.st_mtime),
            "hash": put.hash,
            "merged": put.outcome == "merged",
            "replaced": put.replaced,
        }


def _encoded(content: str) -> bytes:
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise web.HTTPBadRequest(
            text="content: holds characters that are not valid text"
        ) from error
