"""Uploads in pieces, which become recordings and pictures in `Daily/assets/`.

Each piece is on the disk before it is acknowledged. A client that lost the last answer can ask
again for a day. An upload exists for the API key that began it, and for no other: each key has a
folder, with the bytes of an upload in a file, and what is known of it beside that, as JSON.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import os
import re
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal

from pydantic import Field

from parachuted.errors import ConflictError, EditRefusedError, NotFoundError
from parachuted.modules import Body, Module, Response, VaultAccess, route

MOST_BYTES: Final = 200 << 20
_MOST_NAMES: Final = 1000
_PIECE: Final = 1 << 20
_OLDEST_S: Final = 7 * 24 * 3600
_FINISHED_S: Final = 24 * 3600
_MOST_OPEN: Final = 50
_SLOW_S: Final = 600
_ID = re.compile(r"[0-9a-f]{24}")

AssetType = Literal["audio", "photo"]
Size = Annotated[int, Field(ge=1, le=MOST_BYTES)]
Start = Annotated[int, Field(ge=0)]

_SUFFIXES: Final = {
    "audio": ("wav", "mp3", "m4a", "mp4", "ogg", "opus", "webm"),
    "photo": ("png", "jpg", "jpeg", "gif", "webp", "heic"),
}


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


class Uploads:
    """The uploads of one API key."""

    def __init__(self, folder: Path, caller: str, locks: defaultdict[str, asyncio.Lock]) -> None:
        self._folder, self._locks = folder / "uploads" / (caller or "without-key"), locks

    def begin(self, asset: AssetType, name: str, at: dt.datetime, size: int | None) -> Upload:
        suffix = name.rpartition(".")[2].lower()
        if suffix not in _SUFFIXES[asset]:
            raise EditRefusedError(
                f"{name[:80]!r} is not the name of one of these: {', '.join(_SUFFIXES[asset])}"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        self._forget_old()
        waiting = [self.get(file.stem) for file in self._folder.glob("*.bytes")]
        if len(waiting) >= _MOST_OPEN:
            raise EditRefusedError(
                f"{_MOST_OPEN} of your uploads are not complete. One is {waiting[0].id}, of "
                f"{waiting[0].created_at}: complete or delete it first."
            )
        upload_id, created_at = secrets.token_hex(12), at.isoformat()
        made = Upload(id=upload_id, type=asset, suffix=suffix, created_at=created_at, size=size)
        self._put(made)
        self._bytes(made.id).touch()
        return made

    def get(self, upload_id: str) -> Upload:
        if _ID.fullmatch(upload_id):
            with suppress(OSError, ValueError):
                stored = json.loads(self._facts(upload_id).read_text("utf-8"))
                asset = stored.pop("asset")
                upload = Upload(**stored, asset=Asset(**asset) if asset else None)
                if asset:
                    return upload
                return replace(upload, offset=self._bytes(upload_id).stat().st_size)
        raise NotFoundError(f"There is no upload {upload_id[:40]!r}; start it again.")

    async def append(self, upload_id: str, offset: int, pieces: AsyncIterable[bytes]) -> Upload:
        """Add a piece that begins at `offset`; what came before a lost connection stays."""
        self.get(upload_id)
        async with self._locks[upload_id]:
            upload = self._unfinished(upload_id)
            if offset != upload.offset:
                raise EditRefusedError(f"The upload has {upload.offset} bytes: go on from there.")
            most = upload.size or MOST_BYTES
            with self._bytes(upload_id).open("ab") as file:
                try:
                    async for piece in pieces:
                        offset += len(piece)
                        if offset > most:
                            raise EditRefusedError(f"The upload is larger than {most:,} bytes.")
                        await asyncio.to_thread(file.write, piece)
                finally:
                    await asyncio.to_thread(_sync, file)
            return self.get(upload_id)

    async def complete(self, upload_id: str, sha256: str | None, vault: VaultAccess) -> Asset:
        """Asked again within a day, the answer is the same."""
        self.get(upload_id)
        async with self._locks[upload_id]:
            upload, file = self.get(upload_id), self._bytes(upload_id)
            if upload.asset is not None:
                _check_hash(upload.asset.sha256, sha256)
                return upload.asset
            if upload.size not in {None, upload.offset}:
                raise EditRefusedError(
                    f"The upload has {upload.offset} of {upload.size} bytes: go on from there."
                )
            _check_hash(await asyncio.to_thread(_digest_of, file), sha256)
            made = await _keep(vault, upload, file)
            self._put(replace(upload, asset=made))
            file.unlink(missing_ok=True)
        self._locks.pop(upload_id, None)
        return made

    async def delete(self, upload_id: str) -> None:
        self.get(upload_id)
        async with self._locks[upload_id]:
            self._unfinished(upload_id)
            self._remove(upload_id)
        self._locks.pop(upload_id, None)

    def _unfinished(self, upload_id: str) -> Upload:
        upload = self.get(upload_id)
        if upload.asset is not None:
            raise EditRefusedError(f"The upload is complete: it is Daily/{upload.asset.path} now.")
        return upload

    def _forget_old(self) -> None:
        now = time.time()
        for facts in self._folder.glob("*.json"):
            data = self._bytes(facts.stem)
            last = (data if data.exists() else facts).stat().st_mtime
            if now - last > (_OLDEST_S if data.exists() else _FINISHED_S):
                self._remove(facts.stem)

    def _put(self, upload: Upload) -> None:
        self._facts(upload.id).write_text(json.dumps(asdict(upload)), "utf-8")

    def _remove(self, upload_id: str) -> None:
        self._bytes(upload_id).unlink(missing_ok=True)
        self._facts(upload_id).unlink(missing_ok=True)

    def _facts(self, upload_id: str) -> Path:
        return self._folder / f"{upload_id}.json"

    def _bytes(self, upload_id: str) -> Path:
        return self._folder / f"{upload_id}.bytes"


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


def _check_hash(digest: str, said: str | None) -> None:
    if said is not None and said.lower() != digest:
        raise EditRefusedError(f"The upload's SHA-256 is {digest}: upload it again.")


async def _keep(vault: VaultAccess, upload: Upload, file: Path) -> Asset:
    at = dt.datetime.fromisoformat(upload.created_at)
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
    upload_locks: defaultdict[str, asyncio.Lock]

    @property
    def _uploads(self) -> Uploads:
        return Uploads(self.data_folder, self.current_call.key, self.upload_locks)

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
        return Response(status=201, body=self._uploads.begin(type, name, at, size))

    @route("GET", "/uploads/{upload_id}")
    async def get_upload(self, upload_id: str) -> Upload:
        """How far an upload has come: go on from its `offset`. A complete one has an `asset`."""
        return self._uploads.get(upload_id)

    @route("PATCH", "/uploads/{upload_id}", timeout_s=_SLOW_S, max_bytes=MOST_BYTES)
    async def append_upload(self, upload_id: str, offset: Start, body: Body) -> Upload:
        """Add a piece, whose bytes are the body, from `offset` on."""
        return await self._uploads.append(upload_id, offset, body)

    @route("POST", "/uploads/{upload_id}/complete", timeout_s=_SLOW_S)
    async def complete_upload(self, upload_id: str, sha256: str | None = None) -> Asset:
        """Make an upload a file of the vault, after its length and hash were checked.

        Asked again within a day, it answers the same.
        """
        return await self._uploads.complete(upload_id, sha256, self.vault)

    @route("DELETE", "/uploads/{upload_id}")
    async def delete_upload(self, upload_id: str) -> dict[str, str]:
        """Give an upload up."""
        await self._uploads.delete(upload_id)
        return {"id": upload_id}
