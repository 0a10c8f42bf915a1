"""The routes by which recordings and pictures reach the vault."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Final

from pydantic import Field

from parachuted.modules import Body, Module, Response, route

from .assets import MOST_BYTES, Asset, AssetType
from .uploads import Upload, Uploads

_SLOW_S: Final = 600
Size = Annotated[int, Field(ge=1, le=MOST_BYTES)]
Start = Annotated[int, Field(ge=0)]


class UploadRoutes(Module):
    """What a device calls; `uploads` is made in `on_enable`."""

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
