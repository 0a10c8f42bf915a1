"""Settings: the routes that list and change settings and the vault's folder, and TLS.

Only this machine and keys that may do everything change one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from aiohttp import web
from pydantic import Field

from parachuted.api.http.authenticator import Mode
from parachuted.api.http.decorators import get, post, put
from parachuted.api.http.route import ApiCall, MediaBody, RequestModel
from parachuted.config import ListedSetting, SettingsListing
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.home_files.bundled import make_vault
from parachuted.home_files.private import real_path
from parachuted.keys import EVERYTHING, is_narrower
from parachuted.processes.addresses import qr_rows

if TYPE_CHECKING:
    from parachuted.keys.tls import CertificateAuthority

_MODULE = "system"
_AUTH_MODE = "auth_mode"
_VAULT = "vault"
_MODES: dict[str, Mode] = {"": "remote", **{mode: mode for mode in get_args(Mode)}}


@dataclass(frozen=True, slots=True)
class SettingList:
    """`restart`: whether the next start would take other values."""

    settings: list[ListedSetting]
    restart: bool


class SettingRequest(RequestModel):
    """An empty text restores the default."""

    value: Annotated[str, Field(max_length=10_000)]


class VaultRequest(RequestModel):
    """A folder of this machine. `make`: where it is missing or empty, make it with a few notes."""

    folder: Annotated[str, Field(min_length=1, max_length=4_000)]
    make: bool = False


@dataclass(frozen=True, slots=True)
class ChosenVault:
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
        """`mode` and `set_mode`: who needs a key; `refuse_vault` raises DaemonError for an unfit
        folder.
        """
        self._listing, self._mode, self._set_mode = listing, mode, set_mode
        self._refuse_vault = refuse_vault

    @get("/api/settings", _MODULE, "admin")
    async def listing(self) -> SettingList:
        """Every setting, its meaning, its value and where that comes from."""
        settings = [
            replace(setting, value=self._mode()) if setting.key == _AUTH_MODE else setting
            for setting in await asyncio.to_thread(self._listing.all)
        ]
        return SettingList(settings, any(one.value != one.next for one in settings))

    @put("/api/settings/{key}", _MODULE, "admin")
    async def change(self, call: ApiCall, key: str, body: SettingRequest) -> SettingList:
        """Change a setting in config.yaml.

        The next start takes it up; `auth_mode` counts at once.
        """
        _refuse_narrow(call)
        if key not in {setting.key for setting in await asyncio.to_thread(self._listing.all)}:
            raise NotFoundError(f"there is no setting {key[:80]!r}; GET /api/settings lists them")
        if key == _AUTH_MODE and body.value in _MODES:
            await self._set_mode(_MODES[body.value])
        await asyncio.to_thread(self._listing.set, key, body.value)
        return await self.listing()

    @post("/api/vault", _MODULE, "admin")
    async def choose_vault(self, call: ApiCall, body: VaultRequest) -> ChosenVault:
        """Use another folder of notes from the next start on, or make a new one.

        Nothing is chosen on which the daemon would not start.
        """
        _refuse_narrow(call)
        try:
            folder, says = await asyncio.to_thread(self._choose, body)
            restart = (await self.listing()).restart
        except ParachuteError as error:
            raise web.HTTPConflict(text=error.message) from error
        return ChosenVault(os.fspath(folder), says, restart)

    def _choose(self, body: VaultRequest) -> tuple[Path, str]:
        folder = _folder_of(body.folder)
        setting = next(setting for setting in self._listing.all() if setting.key == _VAULT)
        if not setting.editable:
            raise web.HTTPConflict(text=f"the vault is set by {setting.source}; change it there")
        present = real_path(Path(setting.value))
        if folder != present and folder.is_relative_to(present):
            raise web.HTTPConflict(text=f"{folder} lies in the present vault, {present}")
        says = make_vault(folder) if body.make else f"{folder} is as it was."
        self._refuse_vault(folder)
        self._listing.set(_VAULT, os.fspath(folder))
        return folder, says


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


AUTHORITY = "tls/authority.crt"
_TYPE = "application/x-x509-ca-cert"
_OFF = "nothing is served encrypted here; `parachute tls` begins that"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsStatus:
    """How other devices reach the daemon encrypted; null and empty where they cannot.

    `authority` is where a device gets it, `qr` the QR code of that, `fingerprint` what it shows.
    """

    address: str | None = None
    authority: str | None = None
    qr: list[str] = field(default_factory=list)
    fingerprint: str | None = None
    ends_at: datetime | None = None


class TlsRoutes:
    def __init__(self, authority: CertificateAuthority | None, page: Callable[[], str]) -> None:
        """`authority`: None without TLS; `page` is where other machines open the web page."""
        self._authority, self._page = authority, page

    @get("/api/tls", "system", "admin")
    async def status(self) -> TlsStatus:
        """How the daemon is reached encrypted."""
        address = self._page()
        if self._authority is None or not address:
            return TlsStatus()
        info = await asyncio.to_thread(self._authority.info)
        link = f"{address}{AUTHORITY}"
        return TlsStatus(
            address=address,
            authority=link,
            qr=qr_rows(link),
            fingerprint=info.fingerprint,
            ends_at=info.ends,
        )

    @get(
        f"/{AUTHORITY}",
        "system",
        None,
        answers={200: MediaBody(type="application/octet-stream", says="The certificate, as PEM.")},
    )
    async def authority(self) -> web.Response:
        """The certificate of the authority, for a device that is to trust it. It holds no
        secret.
        """
        if self._authority is None:
            raise NotFoundError(_OFF)
        return web.Response(
            body=await asyncio.to_thread(self._authority.pem),
            content_type=_TYPE,
            headers={"Content-Disposition": 'attachment; filename="parachute-authority.crt"'},
        )
