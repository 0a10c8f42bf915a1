"""Files: the folders and files of the vault as a file browser and an editor ask for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from typing import Annotated

from aiohttp import web
from pydantic import Field

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.flutter import FileText, Folder, FolderEntry, WrittenFile
from parachuted.api.http.decorators import get, put
from parachuted.api.http.route import (
    WRITING,
    ApiCall,
    AppRequestModel,
    FolderParameter,
    Path,
    expected,
)
from parachuted.api.routes.note_writer import author_of, keep_bases, put_file, writable
from parachuted.errors import ConflictError, NotFoundError, PathRefusedError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.sync import can_be_merged
from parachuted.texts.times import moment
from parachuted.vault import FileContent, Store, VaultPath, named_errors, printable, refusal

_LARGEST_TEXT = 10 << 20
_VAULT = VaultPath("")


def list_folder(folder: VaultPath, access: AccessFilter) -> list[FolderEntry]:
    """The entries, folders first; without links to what the caller may not see.

    Blocks on the disk. Raises NotFoundError where the folder does not exist for the caller.
    """
    real = _found(folder, access)
    try:
        with (
            named_errors(folder),
            access.root.opened_folder(real) as descriptor,
            os.scandir(descriptor) as found,
        ):
            names = sorted(entry.name for entry in found if refusal(f"x/{entry.name}") is None)
            entries = [_entry(folder, real, name, descriptor, access) for name in names]
    except PathRefusedError as error:
        raise unknown(folder) from error
    listed = [entry for entry in entries if entry is not None]
    return sorted(listed, key=lambda entry: not entry.is_directory)


def _found(folder: VaultPath, access: AccessFilter) -> VaultPath:
    if not folder:
        return folder
    if access.enters(folder):
        with contextlib.suppress(PathRefusedError):
            real = access.root.resolve(folder)
            if real == folder or access.enters(real):
                return real
    raise unknown(folder)


def _entry(
    listed: VaultPath, folder: VaultPath, name: str, descriptor: int, access: AccessFilter
) -> FolderEntry | None:
    path = VaultPath(f"{folder}/{name}" if folder else name)
    target = None
    try:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            target, status = _target(path, access)
    except (OSError, PathRefusedError, NotFoundError):
        return None
    is_folder = stat.S_ISDIR(status.st_mode)
    if not (is_folder or stat.S_ISREG(status.st_mode)):
        return None
    sees = access.enters if is_folder else access.sees
    if not sees(path) or (target is not None and not sees(target)):
        return None
    place = VaultPath(f"{listed}/{name}" if listed else name)
    inside = _inside(path if target is None else target, access) if is_folder else frozenset()
    return FolderEntry(
        name=VaultPath(name),
        type="symlink" if target is not None else "directory" if is_folder else "file",
        path=place,
        relative_path=place,
        is_directory=is_folder,
        is_symlink=target is not None,
        symlink_target=target,
        has_agents_md="AGENTS.md" in inside,
        has_claude_md="CLAUDE.md" in inside,
        is_git_repo=".git" in inside,
        last_modified=moment(status.st_mtime_ns / 1e9),
        size=None if is_folder else status.st_size,
    )


def _target(path: VaultPath, access: AccessFilter) -> tuple[VaultPath, os.stat_result]:
    """Where a link leads, if that is in the vault."""
    target = access.root.resolve(path)
    with access.root.opened_folder(target.folder) as folder:
        return target, os.stat(target.name, dir_fd=folder, follow_symlinks=False)


def _inside(folder: VaultPath, access: AccessFilter) -> frozenset[str]:
    found = set()
    with contextlib.suppress(OSError), access.root.opened_folder(folder) as descriptor:
        for name in (".git", "AGENTS.md", "CLAUDE.md"):
            if name == ".git" or access.sees(f"{folder}/{name}"):
                with contextlib.suppress(OSError):
                    os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                    found.add(name)
    return frozenset(found)


class WriteFileRequest(AppRequestModel):
    """`base_hash`, or If-Match: the SHA-256 of the text that it was made from."""

    path: Path
    content: Annotated[str, Field(max_length=_LARGEST_TEXT)]
    base_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


class FileRoutes:
    def __init__(self, store: Store) -> None:
        self._store = store

    @get("/api/ls", "vault", "read", for_path_keys=True, for_app=True)
    async def list(
        self,
        call: ApiCall,
        path: FolderParameter = _VAULT,
        *,
        include_hidden: bool = False,  # noqa: ARG002  hidden files are not shown whatever it says
    ) -> Folder:
        """List a folder."""
        return Folder(path, await asyncio.to_thread(list_folder, path, call.files))

    @get("/api/read", "vault", "read", for_path_keys=True, for_app=True)
    async def read(self, call: ApiCall, path: Path) -> FileText:
        """Read a text, with its digest.

        After the answer, the text is kept as a base that a write may name.
        """
        call.touched.append(path)
        real, content = await asyncio.to_thread(self._read, path, call)
        if not can_be_merged(content.data):
            raise web.HTTPUnsupportedMediaType(
                text=f"{printable(path)} is not text; GET /api/files/{printable(path)} streams any "
                "file"
            )
        asyncio.get_running_loop().run_in_executor(
            None, keep_bases, self._store, [(real, content.data)]
        )
        call.tag(content.digest)
        return FileText(
            path=path,
            content=content.data.decode(),
            size=len(content.data),
            last_modified=moment(content.status.st_mtime_ns / 1e9),
            hash=content.digest,
        )

    @put(
        "/api/write",
        "vault",
        "write",
        for_path_keys=True,
        headers=WRITING,
        largest_body=6 * _LARGEST_TEXT,
    )
    async def write(self, call: ApiCall, body: WriteFileRequest) -> WrittenFile:
        """Write a whole text, merged with changes since its base."""
        path = await asyncio.to_thread(writable, call, body.path)
        base = body.base_hash or expected(call)
        author, data = author_of(self._store, call), body.content.encode()
        try:
            put = await run_uninterrupted(put_file, self._store, call, author, path, data, base)
        except ConflictError as error:
            raise call.conflict(error, path) from None
        call.touched.append(path)
        await self._store.notice([path])
        content = await asyncio.to_thread(self._store.root.read, put.path)
        call.tag(put.hash)
        return WrittenFile(
            path=body.path,
            size=len(content.data),
            last_modified=moment(content.status.st_mtime_ns / 1e9),
            hash=put.hash,
            merged=put.outcome == "merged",
            replaced=put.replaced,
        )

    def _read(self, path: VaultPath, call: ApiCall) -> tuple[VaultPath, FileContent]:
        real = call.files.find(path)
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
