"""TLS listener: the API once more, encrypted, for other devices; its certificate is renewed by
itself.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from parachuted.addresses import own_address
from parachuted.api import HttpServer
from parachuted.certificates import CertificateAuthority, CertificateError
from parachuted.errors import DaemonError
from parachuted.events import Problems
from parachuted.listening import listening_sockets

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 3600.0
_SUBJECT = "tls"


class TlsListener:
    """Opens the port of TLS on a server that answers already."""

    def __init__(
        self, home: Path, host: str, port: int, problems: Problems, clock: Callable[[], datetime]
    ) -> None:
        self._authority = CertificateAuthority(home)
        self._host, self._port = host, port
        self._problems, self._clock = problems, clock
        self._context: ssl.SSLContext | None = None

    async def open(self, server: HttpServer) -> int:
        """Listen; the port. What prevents that is a problem of the daemon, which goes on without;
        the answer is 0 then.
        """
        try:
            await asyncio.to_thread(self._renew)
            self._context = self._authority.context()
            sockets = listening_sockets(self._host, self._port)
        except (CertificateError, DaemonError) as error:
            self._problems.set(_SUBJECT, f"nothing is served encrypted: {error.message}")
            return 0
        await server.open_at(sockets, self._context)
        return int(sockets[0].getsockname()[1])

    async def run(self) -> None:
        """Renew the certificate when it ends soon, or this machine's address changed, until
        cancelled.
        """
        while self._context is not None:
            await asyncio.sleep(_LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Renew the certificate where that is due; connections from then on get it."""
        try:
            if await asyncio.to_thread(self._renew) and self._context is not None:
                self._authority.load_into(self._context)
                log.info("the certificate was renewed")
        except CertificateError as error:
            self._problems.set(_SUBJECT, f"the certificate was not renewed: {error.message}")
        else:
            self._problems.set(_SUBJECT, None)

    def _renew(self) -> bool:
        address = own_address()
        return self._authority.renew([address] if address else [], self._clock())
