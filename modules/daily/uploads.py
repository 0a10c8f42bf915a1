"""Uploads in pieces, which become recordings and pictures in `Daily/assets/`.

Each piece is on the disk before it is acknowledged. A client that lost the last answer can ask
again for a day. An upload exists for the API key that began it, and for no other.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import os
import re
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal, cast

from pydantic import Field

from parachuted.errors import ConflictError, EditRefusedError, NotFoundError
from parachuted.modules import Body, Module, Response, StateAccess, VaultAccess, route

MOST_BYTES: Final = 200 << 20
_HEAD_BYTES: Final = 16
_MOST_NAMES: Final = 1000

AssetType = Literal["audio", "photo"]

# What a file of each kind begins with; the media player and the speech engine look there too.
_SIGNS: Final = {
    "audio": {
        "wav": rb"RIFF....WAVE",
        "mp3": rb"ID3|\xff[\xe2-\xff]",
        "m4a": rb"....ftyp",
        "mp4": rb"....ftyp",
        "ogg": rb"OggS",
        "opus": rb"OggS",
        "webm": rb"\x1a\x45\xdf\xa3",
    },
    "photo": {
        "png": rb"\x89PNG\r\n\x1a\n",
        "jpg": rb"\xff\xd8\xff",
        "jpeg": rb"\xff\xd8\xff",
        "gif": rb"GIF8",
        "webp": rb"RIFF....WEBP",
        "heic": rb"....ftyp",
    },
}

_STATE = "upload/"
_ID = re.compile(r"[0-9a-f]{24}")
_PIECE: Final = 1 << 20
_OLDEST_S: Final = 7 * 24 * 3600
_FINISHED_S: Final = 24 * 3600
_MOST_OPEN, _MOST_FINISHED = 50, 200
_SLOW_S: Final = 600
Size = Annotated[int, Field(ge=1, le=MOST_BYTES)]
Start = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """`path` is relative to `Daily/`, as entries have it; `size` is in bytes."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """`offset` bytes of `size` are on the disk; `asset` is the file that it became."""

    id: str
    type: AssetType
    suffix: str
    created_at: str
    size: int | None = None
    offset: int = 0
    asset: Asset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    upload: Upload
    caller: str
    at: float

    def to_state(self) -> dict[str, object]:
        return {**asdict(self.upload), "caller": self.caller, "at": self.at}


class Uploads:
    """`caller` is the id of the API key that asks, or ""."""

    def __init__(self, folder: Path, vault: VaultAccess, state: StateAccess) -> None:
        self._folder, self._vault, self._state = folder / "uploads", vault, state
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._records: dict[str, _Record] = {}

    async def load(self) -> None:
        for key in await self._state.keys():
            if key.startswith(_STATE):
                stored = await self._state.get(key)
                self._records[key.removeprefix(_STATE)] = _record_of(
                    cast("Mapping[str, Any]", stored)
                )
        await self._forget_old()

    async def begin(
        self, asset: AssetType, name: str, *, at: datetime, caller: str, size: int | None = None
    ) -> Upload:
        suffix = _suffix_of(asset, name)
        if size is not None and size > MOST_BYTES:
            raise EditRefusedError(_too_large())
        await self._forget_old()
        waiting = self._of(caller, is_complete=False)
        if len(waiting) >= _MOST_OPEN:
            oldest = waiting[0].upload
            raise EditRefusedError(
                f"{_MOST_OPEN} of your uploads are not complete. The oldest is {oldest.id}, of "
                f"{oldest.created_at}: complete or delete it first."
            )
        made = Upload(
            id=secrets.token_hex(12),
            type=asset,
            suffix=suffix,
            created_at=at.isoformat(),
            size=size,
        )
        await asyncio.to_thread(self._make, made.id)
        await self._put(_Record(upload=made, caller=caller, at=time.time()))
        return made

    async def get(self, upload_id: str, caller: str) -> Upload:
        record, path = self._records.get(upload_id), self._folder / upload_id
        if record is not None and record.caller == caller:
            if record.upload.asset is not None:
                return record.upload
            if path.is_file():
                return replace(record.upload, offset=path.stat().st_size)
        raise NotFoundError(f"There is no upload {upload_id[:40]!r}; start it again.")

    async def append(
        self, upload_id: str, offset: int, pieces: AsyncIterable[bytes], caller: str
    ) -> Upload:
        """Add a piece that begins at `offset`; what came before a lost connection stays."""
        await self.get(upload_id, caller)
        async with self._locks[upload_id]:
            upload = await self._unfinished(upload_id, caller)
            if offset != upload.offset:
                raise EditRefusedError(f"The upload has {upload.offset} bytes: go on from there.")
            most = MOST_BYTES if upload.size is None else upload.size
            with (self._folder / upload_id).open("ab") as file:
                try:
                    async for piece in pieces:
                        offset += len(piece)
                        if offset > most:
                            raise EditRefusedError(_too_large(most))
                        await asyncio.to_thread(file.write, piece)
                finally:
                    await asyncio.to_thread(_sync, file)
            return await self.get(upload_id, caller)

    async def complete(self, upload_id: str, sha256: str | None, caller: str) -> Asset:
        """Asked again within a day, the answer is the same."""
        await self.get(upload_id, caller)
        async with self._locks[upload_id]:
            upload = await self.get(upload_id, caller)
            made = upload.asset or await self._asset_of(upload, sha256)
            _check_hash(made.sha256, sha256)
            if upload.asset is None:
                done = replace(upload, asset=made)
                await self._put(_Record(upload=done, caller=caller, at=time.time()))
                (self._folder / upload_id).unlink(missing_ok=True)
        self._locks.pop(upload_id, None)
        return made

    async def delete(self, upload_id: str, caller: str) -> None:
        await self.get(upload_id, caller)
        async with self._locks[upload_id]:
            await self._unfinished(upload_id, caller)
            await self._remove(upload_id)

    async def _unfinished(self, upload_id: str, caller: str) -> Upload:
        upload = await self.get(upload_id, caller)
        if upload.asset is not None:
            raise EditRefusedError(f"The upload is complete: it is Daily/{upload.asset.path} now.")
        return upload

    async def _asset_of(self, upload: Upload, sha256: str | None) -> Asset:
        path = self._folder / upload.id
        if upload.size not in {None, upload.offset}:
            raise EditRefusedError(
                f"The upload has {upload.offset} of {upload.size} bytes: go on from there."
            )
        head, digest = await asyncio.to_thread(_look, path)
        _check_hash(digest, sha256)
        if not re.match(_SIGNS[upload.type][upload.suffix], head, re.DOTALL):
            raise EditRefusedError(f"The content is not that of a .{upload.suffix} file.")
        return await _keep(self._vault, upload, path)

    def _of(self, caller: str, *, is_complete: bool) -> list[_Record]:
        found = [
            record
            for record in self._records.values()
            if record.caller == caller and (record.upload.asset is not None) == is_complete
        ]
        return sorted(found, key=lambda one: one.at)

    async def _put(self, record: _Record) -> None:
        self._records[record.upload.id] = record
        await self._state.put(_STATE + record.upload.id, record.to_state())

    async def _forget_old(self) -> None:
        now = time.time()
        for upload_id, record in list(self._records.items()):
            path, longest = self._folder / upload_id, _OLDEST_S
            last = max(record.at, path.stat().st_mtime) if path.exists() else record.at
            if record.upload.asset is not None:
                longest = _FINISHED_S
            if now - last > longest:
                await self._remove(upload_id)
        for caller in {record.caller for record in self._records.values()}:
            for record in self._of(caller, is_complete=True)[:-_MOST_FINISHED]:
                await self._remove(record.upload.id)

    async def _remove(self, upload_id: str) -> None:
        (self._folder / upload_id).unlink(missing_ok=True)
        self._records.pop(upload_id, None)
        await self._state.delete(_STATE + upload_id)
        self._locks.pop(upload_id, None)

    def _make(self, name: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).touch()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _look(path: Path) -> tuple[bytes, str]:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        file.seek(0)
        return head, hashlib.file_digest(file, "sha256").hexdigest()


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


def _too_large(most: int = MOST_BYTES) -> str:
    return f"The upload is larger than {most:,} bytes."


def _check_hash(digest: str, said: str | None) -> None:
    if said is not None and said.lower() != digest:
        raise EditRefusedError(f"The upload's SHA-256 is {digest}: upload it again.")


def _record_of(stored: Mapping[str, Any]) -> _Record:
    rest = dict(stored)
    caller, at = rest.pop("caller", ""), rest.pop("at", None) or rest.pop("begun")
    made = rest.pop("asset", None)
    asset = Asset(**made) if made else None
    return _Record(upload=Upload(**rest, asset=asset), caller=caller, at=at)


def _suffix_of(asset: AssetType, name: str) -> str:
    suffix = name.rpartition(".")[2].lower()
    if suffix not in _SIGNS[asset]:
        raise EditRefusedError(
            f"{name[:80]!r} is not the name of one of these: {', '.join(_SIGNS[asset])}"
        )
    return suffix


async def _keep(vault: VaultAccess, upload: Upload, file: Path) -> Asset:
    at = datetime.fromisoformat(upload.created_at)
    stem = f"assets/{at:%Y-%m-%d}/{at:%H%M%S}_{upload.type}"
    for number in range(1, _MOST_NAMES):
        path = f"{stem}{'' if number == 1 else f'-{number}'}.{upload.suffix}"
        if await vault.exists(f"Daily/{path}"):
            continue
        try:
            made = await vault.upload(f"Daily/{path}", _pieces(file))
        except ConflictError:
            continue
        return Asset(path=path, size=made.size, sha256=made.digest)
    raise EditRefusedError(
        f"Daily/{stem}.{upload.suffix} and {_MOST_NAMES} more of that second exist."
    )


class UploadRoutes(Module):
    uploads: Uploads

    @route("POST", "/uploads")
    async def begin_upload(
        self,
        type: AssetType,  # noqa: A002  what the request calls it
        name: str,
        size: Size | None = None,
        created_at: dt.datetime | None = None,
    ) -> Response:
        """Begin an upload in pieces, of at most 200 MB; `name` says by its suffix what it is.

        `created_at` decides the day, in its own time zone.
        """
        at = created_at or dt.datetime.now().astimezone()
        made = await self.uploads.begin(type, name, at=at, caller=self.current_call.key, size=size)
        return Response(status=201, body=made)

    @route("GET", "/uploads/{upload_id}")
    async def get_upload(self, upload_id: str) -> Upload:
        """How far an upload has come: go on from its `offset`. A complete one has an `asset`."""
        return await self.uploads.get(upload_id, self.current_call.key)

    @route("PATCH", "/uploads/{upload_id}", timeout_s=_SLOW_S, max_bytes=MOST_BYTES)
    async def append_upload(self, upload_id: str, offset: Start, body: Body) -> Upload:
        """Add a piece, whose bytes are the body, from `offset` on."""
        return await self.uploads.append(upload_id, offset, body, self.current_call.key)

    @route("POST", "/uploads/{upload_id}/complete", timeout_s=_SLOW_S)
    async def complete_upload(self, upload_id: str, sha256: str | None = None) -> Asset:
        """Make an upload a file of the vault, after its length, hash and kind were checked.

        Asked again within a day, it answers the same.
        """
        return await self.uploads.complete(upload_id, sha256, self.current_call.key)

    @route("DELETE", "/uploads/{upload_id}")
    async def delete_upload(self, upload_id: str) -> dict[str, str]:
        """Give an upload up."""
        await self.uploads.delete(upload_id, self.current_call.key)
        return {"id": upload_id}
