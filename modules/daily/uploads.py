"""Uploads in pieces: a phone that loses its connection goes on where it was.

The pieces lie in the module's data folder until the upload is complete; each is on the disk before
it is acknowledged.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import StateAccess, VaultAccess

from . import assets
from .assets import Asset, AssetType

_KEPT = "upload/"
_ID = re.compile(r"[0-9a-f]{24}")
_PIECE: Final = 1 << 20
_OLDEST_S: Final = 7 * 24 * 3600
_MOST: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An upload that is not complete. `offset`: how many bytes are on the disk; `size`: how many it
    will have, if that was said.
    """

    id: str
    type: AssetType
    suffix: str
    created_at: str
    size: int | None = None
    offset: int = 0


class Uploads:
    """The uploads of all devices."""

    def __init__(self, folder: Path, vault: VaultAccess, state: StateAccess) -> None:
        self._folder, self._vault, self._state = folder / "uploads", vault, state
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def begin(
        self, asset: AssetType, name: str, *, at: datetime, size: int | None = None
    ) -> Upload:
        """Begin one; at most 50 are open at once. Raises EditRefusedError."""
        suffix = assets.extension(asset, name)
        if size is not None and size > assets.MOST_BYTES:
            raise EditRefusedError(_too_large())
        open_now = [key for key in await self._state.keys() if key.startswith(_KEPT)]
        if len(open_now) >= _MOST:
            raise EditRefusedError(
                f"{_MOST} uploads are not complete; complete or delete one of them first."
            )
        made = Upload(
            id=secrets.token_hex(12),
            type=asset,
            suffix=suffix,
            created_at=at.isoformat(),
            size=size,
        )
        await asyncio.to_thread(self._make, made.id)
        kept = asdict(made) | {"begun": time.time()}
        await self._state.put(_KEPT + made.id, kept)
        return made

    async def get(self, upload_id: str) -> Upload:
        """That upload, as far as it has come. Raises NotFoundError."""
        kept = await self._state.get(_KEPT + upload_id) if _ID.fullmatch(upload_id) else None
        path = self._folder / upload_id
        if not isinstance(kept, dict) or not path.is_file():
            raise NotFoundError(f"There is no upload {upload_id[:40]!r}; begin it again.")
        kept.pop("begun")
        return Upload(**kept | {"offset": path.stat().st_size})

    async def append(self, upload_id: str, offset: int, pieces: AsyncIterable[bytes]) -> Upload:
        """Add a piece that begins at `offset`; what came before a lost connection stays.

        Raises EditRefusedError when the upload has another length, which the message says, or
        would be larger than it may.
        """
        async with self._locks[upload_id]:
            upload = await self.get(upload_id)
            if offset != upload.offset:
                raise EditRefusedError(f"The upload has {upload.offset} bytes: go on from there.")
            most = assets.MOST_BYTES if upload.size is None else upload.size
            with (self._folder / upload_id).open("ab") as file:
                try:
                    async for piece in pieces:
                        offset += len(piece)
                        if offset > most:
                            raise EditRefusedError(_too_large(most))
                        await asyncio.to_thread(file.write, piece)
                finally:
                    await asyncio.to_thread(_sync, file)
            return await self.get(upload_id)

    async def complete(self, upload_id: str, sha256: str | None = None) -> Asset:
        """Make it a file of the vault. Raises EditRefusedError when its length, its hash or its
        content is not what was said; then it is still there.
        """
        async with self._locks[upload_id]:
            upload = await self.get(upload_id)
            path = self._folder / upload_id
            if upload.size not in {None, upload.offset}:
                raise EditRefusedError(
                    f"The upload has {upload.offset} of {upload.size} bytes: go on from there."
                )
            head, digest = await asyncio.to_thread(_look, path)
            if sha256 is not None and sha256.lower() != digest:
                raise EditRefusedError(f"The upload's SHA-256 is {digest}: upload it again.")
            assets.check_head(upload.type, upload.suffix, head)
            at = datetime.fromisoformat(upload.created_at)
            made = await assets.keep(
                self._vault, at, upload.type, upload.suffix, lambda: _pieces(path)
            )
            await self._remove(upload_id)
            return made

    async def delete(self, upload_id: str) -> None:
        """Give it up. Raises NotFoundError."""
        async with self._locks[upload_id]:
            await self.get(upload_id)
            await self._remove(upload_id)

    async def forget_old(self) -> None:
        """Remove what nobody went on with for a week."""
        for key in await self._state.keys():
            if not key.startswith(_KEPT):
                continue
            kept = await self._state.get(key)
            begun = kept.get("begun") if isinstance(kept, dict) else None
            if not isinstance(begun, float) or time.time() - begun > _OLDEST_S:
                await self._remove(key.removeprefix(_KEPT))

    async def _remove(self, upload_id: str) -> None:
        (self._folder / upload_id).unlink(missing_ok=True)
        await self._state.delete(_KEPT + upload_id)
        self._locks.pop(upload_id, None)

    def _make(self, name: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).touch()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _look(path: Path) -> tuple[bytes, str]:
    with path.open("rb") as file:
        head = file.read(assets.HEAD_BYTES)
        file.seek(0)
        return head, hashlib.file_digest(file, "sha256").hexdigest()


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


def _too_large(most: int = assets.MOST_BYTES) -> str:
    return f"The upload is larger than {most:,} bytes."
