"""Files: the folders and files of the vault as a file browser and an editor ask for them."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated

from aiohttp import web
from pydantic import Field

from parachuted.access.filter import unknown
from parachuted.api.http.answers import json_answer
from parachuted.api.http.decorators import get, put
from parachuted.api.http.fields import AppRequestModel, FolderParameter, Path
from parachuted.api.http.preconditions import WRITING, expected
from parachuted.api.http.route import ApiCall
from parachuted.api.http.watching import readable, refuse_watching_beyond
from parachuted.api.routes import files_documents as told
from parachuted.api.routes.folder_listing import list_folder
from parachuted.api.routes.writable import refuse_programs_but_to_admins
from parachuted.api.routes.write_batcher import WriteBatcher
from parachuted.errors import ConflictError, NotFoundError, StorageFailedError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.sync import PutResult, can_be_merged, put_whole
from parachuted.times import moment
from parachuted.vault import FileContent, Store, VaultPath, printable

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
    """The routes of single files and folders, small enough for JSON."""

    def __init__(self, store: Store, writer: WriteBatcher) -> None:
        self._store, self._writer = store, writer

    @get("/api/ls", "vault", "read", reach="paths")
    async def list(self, call: ApiCall, query: ListQuery) -> told.FolderResponse:
        """List a folder."""
        folder = query.path
        return {
            "path": printable(folder),
            "entries": await asyncio.to_thread(list_folder, folder, call.sight),
        }

    @get("/api/read", "vault", "read", reach="paths", answers={200: told.FileReadResponse})
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
        answer: told.FileReadResponse = {
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
        answers={200: told.FileWriteResponse},
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
            await asyncio.to_thread(self._told, body.path, put), headers={"ETag": f'"{put.hash}"'}
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

    def _told(self, path: VaultPath, put: PutResult) -> told.FileWriteResponse:
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
