"""Files: folders and files as a browser and an editor ask for them, and streams of any size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from aiohttp import ClientError, web
from pydantic import Field

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.flutter import FileText, Folder, FolderEntry, WrittenFile
from parachuted.api.http.answers import ANY_TYPE, MEDIA_TYPES, headers_of
from parachuted.api.http.decorators import get, put
from parachuted.api.http.route import (
    CREATING,
    KNOWN,
    WRITING,
    ApiCall,
    AppRequestModel,
    FolderParameter,
    MediaBody,
    Path,
    expected,
    is_known,
    only_new,
    refuse_watching_beyond,
)
from parachuted.api.routes.note_changes import author_of, keep_bases, put_file, writable
from parachuted.errors import ConflictError, NotFoundError, PathRefusedError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.sync import FileDigests, can_be_merged
from parachuted.texts.times import moment
from parachuted.vault import (
    NOTE_SUFFIXES,
    FileContent,
    IncomingFile,
    Store,
    VaultPath,
    WriteResult,
    named_errors,
    place_incoming,
    printable,
    refusal,
)

_PIECE = 1 << 18
_NO_BYTES = re.compile("bytes=-0+", re.IGNORECASE)  # the last none, which aiohttp takes for all
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
        call.touched.append(path)
        put = await run_uninterrupted(put_file, self._store, call, author, path, data, base)
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


_LARGEST = 4 << 30
_FRONTMATTER = 1 << 20
_CONTENT = (
    MediaBody(
        type=ANY_TYPE,
        says="The file, or the requested range of it, with the type that its name implies. Its "
        "ETag is its SHA-256.",
    ),
    *(
        MediaBody(type=kind, says="")
        for kind in dict.fromkeys(kind.partition(";")[0] for kind in MEDIA_TYPES.values())
    ),
)
_RANGE = {
    "Range": "Which bytes, such as `bytes=0-1023`.",
    "If-Range": "The ETag that the range is of; else the whole file comes.",
}


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """`replaced`: the digest of what was overwritten; history has it."""

    path: VaultPath
    size: int
    hash: str
    created: bool
    replaced: str | None


@dataclass(frozen=True, slots=True)
class _Open:
    descriptor: int
    digest: str
    status: os.stat_result

    @property
    def etag(self) -> str:
        return f'"{self.digest}"'

    def is_as_it_was(self) -> bool:
        now = os.fstat(self.descriptor)
        return (now.st_mtime_ns, now.st_size) == (self.status.st_mtime_ns, self.status.st_size)


class FileStreamRoutes:
    def __init__(self, store: Store, digests: FileDigests) -> None:
        self._store, self._digests = store, digests

    @get(
        "/api/files/{path:.+}",
        "vault",
        "read",
        for_path_keys=True,
        answers={200: _CONTENT, 206: _CONTENT, 304: None},
        names={"path": "The file, relative to the vault."},
        headers={"If-None-Match": KNOWN, **_RANGE},
    )
    async def download(self, call: ApiCall, path: str) -> web.StreamResponse:
        """Any file, whole or a range of it."""
        request, path = call.request, VaultPath.parse(path)
        call.touched.append(path)
        file = await asyncio.to_thread(self._open, path, call.files)
        try:
            if is_known(request, file.digest):
                return web.Response(status=304, headers={"ETag": file.etag})
            headers = headers_of(path, file.etag)
            start, stop, status = _range(request, file)
            if status == HTTPStatus.PARTIAL_CONTENT:
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.status.st_size}"
            response = web.StreamResponse(status=status, headers=headers)
            response.content_length = stop - start
            await response.prepare(request)
            if request.method != "HEAD":
                await _send(request, response, file, start, stop)
            return response
        finally:
            os.close(file.descriptor)

    def _open(self, path: VaultPath, files: AccessFilter) -> _Open:
        real = files.find(path)
        try:
            with named_errors(path), self._store.root.opened_file(real) as descriptor:
                digest = self._digests.digest(real, descriptor)
                return _Open(os.dup(descriptor), digest, os.fstat(descriptor))
        except NotFoundError as error:
            raise unknown(path) from error

    @put(
        "/api/files/{path:.+}",
        "vault",
        "write",
        for_path_keys=True,
        largest_body=_LARGEST,
        answers={200: UploadedFile, 201: UploadedFile},
        names={"path": "The file, relative to the vault."},
        headers=CREATING,
        uploads=MediaBody(type=ANY_TYPE, says="The whole file."),
    )
    async def upload(self, call: ApiCall, path: str) -> UploadedFile:
        """Create or replace any file with the body.

        Nothing is written unless the whole body arrived.
        """
        file = await asyncio.to_thread(writable, call, VaultPath.parse(path))
        base, is_new = expected(call), only_new(call)
        incoming = await run_uninterrupted(IncomingFile, self._store.objects)
        with incoming:
            await _receive(call, incoming)
            written = await run_uninterrupted(
                self._place, call, file, incoming, base, is_new=is_new
            )
        call.touched.append(file)
        await self._store.notice([file])
        is_new_file = written.before is None
        call.status = 201 if is_new_file else 200
        call.tag(incoming.digest)
        replaced = written.before if written.changed else None
        return UploadedFile(file, incoming.size, incoming.digest, is_new_file, replaced)

    def _place(
        self,
        call: ApiCall,
        path: VaultPath,
        incoming: IncomingFile,
        base: str | None,
        *,
        is_new: bool,
    ) -> WriteResult:
        if path.endswith(NOTE_SUFFIXES):
            text = incoming.beginning(_FRONTMATTER)
            refuse_watching_beyond(call.reading, self._store, path, lambda _before: text)
        author = author_of(self._store, call)
        try:
            return place_incoming(self._store, path, incoming, author, base=base, is_new=is_new)
        except ConflictError as error:
            raise web.HTTPConflict(text=error.message) from error
        except NotFoundError as error:
            raise web.HTTPConflict(
                text=f"{printable(path)} is not there; nothing was written"
            ) from error


async def _receive(call: ApiCall, incoming: IncomingFile) -> None:
    try:
        async for piece in call.chunks():
            await run_uninterrupted(incoming.write, piece)
    except (ConnectionError, ClientError, web.RequestPayloadError) as error:
        raise web.HTTPBadRequest(text="the upload was cut short; nothing was written") from error
    if call.request.content_length not in {None, incoming.size}:
        raise web.HTTPBadRequest(text="the upload was cut short; nothing was written")


async def _send(
    request: web.Request, response: web.StreamResponse, file: _Open, start: int, stop: int
) -> None:
    """Cut the connection when the file is not what the headers said any more.

    Not aiohttp's `FileResponse`, which opens a path and whose ETag is not of the content.
    """
    try:
        while start < stop:
            piece = await asyncio.to_thread(
                os.pread, file.descriptor, min(_PIECE, stop - start), start
            )
            if not piece or not file.is_as_it_was():
                break
            await response.write(piece)
            start += len(piece)
    except ConnectionError:
        return  # who asked has gone
    if start < stop and request.transport is not None:
        request.transport.abort()


def _range(request: web.Request, file: _Open) -> tuple[int, int, int]:
    """Start, stop and status; a range that makes no sense counts as none."""
    size, whole = file.status.st_size, (0, file.status.st_size, 200)
    if request.headers.get("If-Range", file.etag) != file.etag or "Range" not in request.headers:
        return whole
    try:
        asked = request.http_range
    except ValueError:
        return whole
    start = size if _NO_BYTES.fullmatch(request.headers["Range"]) else asked.start or 0
    start = max(0, size + start) if start < 0 else start
    stop = size if asked.stop is None else min(asked.stop, size)
    if start >= stop:
        raise web.HTTPRequestRangeNotSatisfiable(
            headers={"Content-Range": f"bytes */{size}"}, text=f"the file has {size} bytes"
        )
    return start, stop, 206
