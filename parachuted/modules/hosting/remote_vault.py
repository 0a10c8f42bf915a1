"""The vault in a module's own process: each call asks the daemon, which holds the rights."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, cast

from parachuted.access.hit import Hit, Hits, Paths
from parachuted.access.notes import (
    LinkRow,
    Links,
    Note,
    NoteBatch,
    NoteChange,
    NoteEdit,
    NotePage,
    NoteStream,
    Upload,
    Writer,
)
from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.note_codec import change_to_json, edit_to_json, note_of, row_of
from parachuted.modules.results import to_json

_NOTES = (".md", ".markdown")
_AT_ONCE = 100
_MOST_NAMED = 10_000
_PIECE = 1 << 20
_AGAIN_S = 0.01


class PipeCaller(Protocol):
    """The pipe, as the services need it."""

    async def ask(self, verb: str, body: Mapping[str, object]) -> object:
        """Ask the daemon, and wait for its answer."""

    def ask_now(self, verb: str, body: Mapping[str, object]) -> object:
        """The same for synchronous code; it blocks the loop until the answer arrives."""


class RemoteVault:
    """`VaultAccess` over the pipe."""

    def __init__(self, asker: PipeCaller) -> None:
        self._asker = asker
        self._numbers = itertools.count(1)

    async def read(self, path: str) -> str:
        return text_of(await self._ask("read", path=path))

    async def read_bytes(self, path: str) -> bytes:
        return base64.b64decode(text_of(await self._ask("read_bytes", path=path)))

    async def exists(self, path: str) -> bool:
        return await self._ask("exists", path=path) is True

    async def list(self, pattern: str = "**") -> Paths:
        return texts_of(await self._ask("list", pattern=pattern))

    async def scope(self) -> str:
        return text_of(await self._ask("scope"))

    async def readable(self, paths: Sequence[str]) -> Paths:
        found: list[str] = []
        for first in range(0, len(paths), _MOST_NAMED):
            part = list(paths[first : first + _MOST_NAMED])
            found += texts_of(await self._ask("readable", paths=part))
        return found

    async def search(self, query: str, limit: int = 20) -> Hits:
        found = await self._ask("search", query=query, limit=limit)
        return [Hit(**hit) for hit in found] if isinstance(found, list) else []

    async def write(self, path: str, text: str, *, base: str | None = None) -> str:
        return text_of(await self._ask("write", path=path, text=text, base=base))

    async def write_bytes(self, path: str, data: bytes, *, base: str | None = None) -> str:
        return text_of(
            await self._ask(
                "write_bytes", path=path, data=base64.b64encode(data).decode(), base=base
            )
        )

    async def create(self, path: str, text: str) -> str:
        return text_of(await self._ask("create", path=path, text=text))

    async def append(self, path: str, section: str, text: str) -> str:
        return text_of(await self._ask("append", path=path, section=section, text=text))

    async def set_key(self, path: str, key: str, value: object) -> str:
        return text_of(await self._ask("set_key", path=path, key=key, value=to_json(value)))

    async def note(self, path: str) -> Note:
        return note_of(mapping_of(await self._ask("note", path=path)))

    async def notes(
        self,
        folder: str = "",
        *,
        tag: str | None = None,
        where: Mapping[str, object] | None = None,
        order: str = "path",
        limit: int = 100,
        cursor: str | None = None,
    ) -> NotePage:
        found = await self._ask(
            "notes",
            folder=folder,
            tag=tag,
            where=to_json(where),
            order=order,
            limit=limit,
            cursor=cursor,
        )
        page = mapping_of(found)
        rows = tuple(row_of(mapping_of(one)) for one in list_of(page["notes"]))
        cursor = None if page["next"] is None else text_of(page["next"])
        return NotePage(notes=rows, next=cursor, is_indexing=page["is_indexing"] is True)

    async def links(self, path: str) -> Links:
        return [LinkRow(**mapping_of(one)) for one in list_of(await self._ask("links", path=path))]

    async def backlinks(self, path: str) -> Links:
        found = list_of(await self._ask("backlinks", path=path))
        return [LinkRow(**mapping_of(one)) for one in found]

    def read_notes(self, pattern: str | Sequence[str] = "**") -> NoteStream:
        return NoteStream(self._batches(pattern))

    async def _batches(self, pattern: str | Sequence[str]) -> AsyncIterator[NoteBatch]:
        paths = pattern
        if isinstance(paths, str):
            paths = [path for path in await self.list(paths) if path.endswith(_NOTES)]
        while paths:
            batch = mapping_of(await self._ask("read_notes", paths=list(paths[:_AT_ONCE])))
            notes = tuple(note_of(mapping_of(one)) for one in list_of(batch["notes"]))
            left_out = {path: text_of(why) for path, why in mapping_of(batch["left_out"]).items()}
            yield NoteBatch(notes=notes, left_out=left_out)
            paths = paths[max(1, int(batch["read"])) :]

    async def edit(self, path: str, edits: Sequence[NoteEdit], *, base: str | None = None) -> str:
        changes = [edit_to_json(one) for one in edits]
        return text_of(await self._ask("edit", path=path, edits=changes, base=base))

    async def edit_all(self, changes: Sequence[NoteChange], *, reason: str) -> str:
        body = [change_to_json(one) for one in changes]
        return text_of(await self._ask("edit_all", changes=body, reason=reason))

    async def delete(self, path: str) -> None:
        await self._ask("delete", path=path)

    async def move(self, source: str, target: str) -> str:
        return text_of(await self._ask("move", source=source, target=target))

    async def upload(self, path: str, chunks: AsyncIterable[bytes]) -> Upload:
        """One call for as long as it lasts; the pieces come with others."""
        number = next(self._numbers)
        made = asyncio.get_running_loop().create_task(
            self._asker.ask("vault.upload", {"path": path, "number": number}), name=f"upload {path}"
        )
        try:
            async for piece in _pieces(chunks):
                data = base64.b64encode(piece).decode()
                # until it has begun; once it has ended, the call itself says why
                while not (  # noqa: ASYNC110  the daemon has begun when it says so
                    made.done() or await self._ask("upload_piece", number=number, data=data)
                ):
                    await asyncio.sleep(_AGAIN_S)
                if made.done():
                    break
            return Upload(**mapping_of(await made))
        finally:
            made.cancel()

    async def digest(self, path: str) -> str:
        return text_of(await self._ask("digest", path=path))

    async def written_by(self, path: str) -> Writer:
        return cast("Writer", text_of(await self._ask("written_by", path=path)))

    async def _ask(self, verb: str, **body: object) -> object:
        return await self._asker.ask(f"vault.{verb}", body)


class RemoteFolders:
    """`FolderAccess` over the pipe."""

    def __init__(self, asker: PipeCaller) -> None:
        self._asker = asker

    async def read(self, path: str) -> str:
        return text_of(await self._asker.ask("folders.read", {"path": path}))

    async def list(self, path: str, pattern: str = "*") -> Paths:
        return texts_of(await self._asker.ask("folders.list", {"path": path, "pattern": pattern}))


async def _pieces(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """What fits into a frame, and nothing at the end."""
    async for chunk in chunks:
        for at in range(0, len(chunk), _PIECE):
            yield bytes(chunk[at : at + _PIECE])
    yield b""


def text_of(value: object) -> str:
    if not isinstance(value, str):
        raise ModuleFailedError("the daemon answered with something else than a text")
    return value


def list_of(value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise ModuleFailedError("the daemon answered with something else than a list")
    return value


def mapping_of(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ModuleFailedError("the daemon answered with something else than an object")
    return value


def texts_of(value: object) -> list[str]:
    return [text_of(one) for one in value] if isinstance(value, list) else []
