"""The port of TLS: opened on a server, and served with each renewed certificate."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiohttp import web

from parachuted.api import HttpServer
from parachuted.certificates import CertificateAuthority
from parachuted.events import Bus, Problems
from parachuted.tls_listener import TlsListener

NOW = datetime.now(UTC)


async def serial(port: int, authority: CertificateAuthority) -> str:
    """That of the certificate that one who connects is shown."""
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    _, writer = await asyncio.open_connection("localhost", port, ssl=trusting)
    found = writer.get_extra_info("peercert")["serialNumber"]
    writer.transport.abort()
    return found


async def test_who_connects_after_a_renewal_is_shown_the_new_certificate(tmp_path: Path):
    authority, now = CertificateAuthority(tmp_path), NOW - timedelta(days=21)
    authority.make([], now)
    problems = Problems(Bus(lambda: NOW))
    listener = TlsListener(tmp_path, "127.0.0.1", 0, problems, lambda: now)
    server = HttpServer(web.Application())
    port = await listener.open(server)
    try:
        first = await serial(port, authority)
        await listener.look()
        assert await serial(port, authority) == first
        now = NOW
        await listener.look()
        assert await serial(port, authority) != first
        authority.certificate.write_text("nothing")
        await listener.look()
        assert "was not renewed" in problems.open["tls"]
    finally:
        await server.close()
