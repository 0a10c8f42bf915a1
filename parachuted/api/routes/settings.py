"""Settings: the routes that show every setting and change one, the vault's folder among them.

A setting says where the vault is, who may ask and what a model costs, so only this machine and keys
that may do everything change one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.api.http.authenticator import Mode
from parachuted.api.http.decorators import get, post, put
from parachuted.api.http.route import ApiCall, RequestModel
from parachuted.bundled import make_vault
from parachuted.config import ListedSetting, SettingsListing
from parachuted.errors import ConfigError, NotFoundError, ParachuteError
from parachuted.keys import EVERYTHING, is_narrower

_MODULE = "system"
_AUTH_MODE = "auth_mode"
_VAULT = "vault"
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


class VaultRequest(RequestModel):
    """A folder of this machine, whole or from ~/ on.

    `make`: where it is missing or empty, make it, with a few notes to begin with.
    """

    folder: Annotated[str, Field(min_length=1, max_length=4_000)]
    make: bool = False


class VaultResponse(TypedDict):
    """The vault from the next start on, and what was done with its folder."""

    folder: str
    says: str
    restart: bool


class SettingRoutes:
    def __init__(
        self,
        listing: SettingsListing,
        mode: Callable[[], Mode],
        set_mode: Callable[[Mode], Awaitable[None]],
        refuse_vault: Callable[[Path], None],
    ) -> None:
        """`mode` and `set_mode`: who needs a key, which alone takes effect at once.

        `refuse_vault` raises DaemonError for a folder on which the daemon would not start.
        """
        self._listing, self._mode, self._set_mode = listing, mode, set_mode
        self._refuse_vault = refuse_vault

    @get("/api/settings", _MODULE, "admin", reach="beyond")
    async def listing(self) -> SettingsResponse:
        """Every setting, its meaning, its value and where that comes from."""
        return await self._response()

    @put("/api/settings/{key}", _MODULE, "admin", reach="beyond")
    async def change(self, call: ApiCall, key: str, body: SettingRequest) -> SettingsResponse:
        """Change a setting in config.yaml.

        The next start takes it up; `auth_mode` counts at once.
        """
        _refuse_narrow(call)
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

    @post("/api/vault", _MODULE, "admin", reach="beyond")
    async def choose_vault(self, call: ApiCall, body: VaultRequest) -> VaultResponse:
        """Use another folder of notes from the next start on, or make a new one.

        Nothing is chosen on which the daemon would not start.
        """
        _refuse_narrow(call)
        try:
            folder, says = await asyncio.to_thread(self._choose, body)
            restart = (await self._response())["restart"]
        except ParachuteError as error:
            raise web.HTTPConflict(text=error.message) from error
        return {"folder": os.fspath(folder), "says": says, "restart": restart}

    def _choose(self, body: VaultRequest) -> tuple[Path, str]:
        folder = _folder_of(body.folder)
        held = next(one for one in self._listing.all() if one["key"] == _VAULT)
        if not held["editable"]:
            raise web.HTTPConflict(text=f"the vault is set by {held['source']}; change it there")
        present = Path(str(held["value"])).resolve()
        if folder != present and folder.is_relative_to(present):
            raise web.HTTPConflict(text=f"{folder} lies in the present vault, {present}")
        says = make_vault(folder) if body.make else f"{folder} is as it was."
        self._refuse_vault(folder)
        self._listing.set(_VAULT, os.fspath(folder))
        return folder, says

    async def _response(self) -> SettingsResponse:
        try:
            found = await asyncio.to_thread(self._listing.all)
        except ConfigError as error:
            raise web.HTTPConflict(text=error.message) from error
        for one in found:
            if one["key"] == _AUTH_MODE:
                one["value"] = self._mode()
        return {"settings": found, "restart": any(one["value"] != one["next"] for one in found)}


def _refuse_narrow(call: ApiCall) -> None:
    if not is_narrower(EVERYTHING, call.identity):
        raise web.HTTPForbidden(
            text="only this machine, or a key that may do everything, changes a setting"
        )


def _folder_of(said: str) -> Path:
    """The folder, without links on its way."""
    try:
        folder = Path(said).expanduser()
        if folder.is_absolute():
            folder.exists()
            return folder.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # no such user, a null, too long
        raise web.HTTPUnprocessableEntity(
            text=f"{said[:80]!r} is not a folder's path: {error}"
        ) from error
    raise web.HTTPUnprocessableEntity(
        text=f"{said[:80]!r} is not a whole path: begin it with / or ~/"
    )
