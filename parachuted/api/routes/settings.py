"""Settings: the routes that show every setting and change one.

A setting says where the vault is, who may ask and what a model costs, so only this machine and keys
that may do everything change one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.api.http.authenticator import Mode
from parachuted.api.http.decorators import get, put
from parachuted.api.http.route import ApiCall, RequestModel
from parachuted.config import ListedSetting, SettingsListing
from parachuted.errors import ConfigError, NotFoundError
from parachuted.keys import EVERYTHING, is_narrower

_MODULE = "system"
_AUTH_MODE = "auth_mode"
_MODES: dict[str, Mode] = {
    "": "remote",
    "remote": "remote",
    "always": "always",
    "disabled": "disabled",
}


class SettingsResponse(TypedDict):
    """Every setting; `restart`: whether the next start would take other values."""

    settings: list[ListedSetting]
    restart: bool


class SettingRequest(RequestModel):
    """The value as text; an empty one restores the default."""

    value: Annotated[str, Field(max_length=10_000)]


class SettingRoutes:
    def __init__(
        self,
        listing: SettingsListing,
        mode: Callable[[], Mode],
        set_mode: Callable[[Mode], Awaitable[None]],
    ) -> None:
        """`mode` and `set_mode`: who needs a key, which alone takes effect at once."""
        self._listing, self._mode, self._set_mode = listing, mode, set_mode

    @get("/api/settings", _MODULE, "admin", reach="beyond")
    async def listing(self) -> SettingsResponse:
        """Every setting, its meaning, its value and where that comes from."""
        return await self._response()

    @put("/api/settings/{key}", _MODULE, "admin", reach="beyond")
    async def change(self, call: ApiCall, key: str, body: SettingRequest) -> SettingsResponse:
        """Change a setting in config.yaml.

        The next start takes it up; `auth_mode` counts at once.
        """
        if not is_narrower(EVERYTHING, call.identity):
            raise web.HTTPForbidden(
                text="only this machine, or a key that may do everything, changes a setting"
            )
        try:
            if key not in {one["key"] for one in await asyncio.to_thread(self._listing.all)}:
                raise NotFoundError(
                    f"there is no setting {key[:80]!r}; GET /api/settings lists them"
                )
            if key == _AUTH_MODE and body.value in _MODES:
                await self._set_mode(_MODES[body.value])
            await asyncio.to_thread(self._listing.set, key, body.value)
        except ConfigError as error:
            raise web.HTTPConflict(text=error.message) from error
        return await self._response()

    async def _response(self) -> SettingsResponse:
        try:
            found = await asyncio.to_thread(self._listing.all)
        except ConfigError as error:
            raise web.HTTPConflict(text=error.message) from error
        for one in found:
            if one["key"] == _AUTH_MODE:
                one["value"] = self._mode()
        return {"settings": found, "restart": any(one["value"] != one["next"] for one in found)}
