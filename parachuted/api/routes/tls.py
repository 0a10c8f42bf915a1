"""TLS: how this daemon is reached encrypted, and the authority's certificate for a phone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from aiohttp import web
from typing_extensions import TypedDict

from parachuted.addresses import qr_rows
from parachuted.api.http.decorators import get
from parachuted.api.http.route import MediaBody
from parachuted.errors import NotFoundError
from parachuted.times import Time, time_of

AUTHORITY = "tls/authority.crt"
_TYPE = "application/x-x509-ca-cert"
_OFF = "nothing is served encrypted here; `parachute tls` begins that"


class TlsResponse(TypedDict):
    """How the daemon is reached encrypted by other devices; null and empty where it is not.

    `authority` is where a device gets the authority that it is to trust, `qr` the QR code of that,
    and `fingerprint` what the device should show of it.
    """

    address: str | None
    authority: str | None
    qr: list[str]
    fingerprint: str | None
    ends_at: Time | None


class _Info(Protocol):
    @property
    def fingerprint(self) -> str: ...
    @property
    def ends(self) -> datetime: ...


class TlsAuthority(Protocol):
    """The authority of the vault's owner."""

    def pem(self) -> bytes: ...
    def info(self) -> _Info: ...


class TlsRoutes:
    def __init__(self, authority: TlsAuthority | None, page: Callable[[], str]) -> None:
        """`authority` is None where nothing is served encrypted; `page` is where other machines
        open the web page.
        """
        self._authority, self._page = authority, page

    @get("/api/tls", "system", "admin", reach="beyond")
    async def status(self) -> TlsResponse:
        """How the daemon is reached encrypted."""
        address = self._page()
        if self._authority is None or not address:
            return {
                "address": None,
                "authority": None,
                "qr": [],
                "fingerprint": None,
                "ends_at": None,
            }
        info = await asyncio.to_thread(self._authority.info)
        link = f"{address}{AUTHORITY}"
        return {
            "address": address,
            "authority": link,
            "qr": qr_rows(link),
            "fingerprint": info.fingerprint,
            "ends_at": time_of(info.ends),
        }

    @get(
        f"/{AUTHORITY}",
        "system",
        None,
        reach="nothing",
        answers={200: MediaBody(type="application/octet-stream", says="The certificate, as PEM.")},
        errors=(404,),
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
