"""The daemon, encrypted: the same answers, for devices that trust the owner's authority."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime

import aiohttp
import pytest

from parachuted.keys.tls import CertificateAuthority
from tests.api.calls import ELSEWHERE, expect, get, key_of
from tests.stories.daemon_rig import Live


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


async def test_the_api_answers_encrypted_and_hands_out_its_authority(live: Live, home, port: int):
    home.mkdir(mode=0o700, exist_ok=True)
    authority = CertificateAuthority(home)
    info = authority.make(["notes.local"], datetime.now(UTC))
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    async with (
        live(tls__port=port, tls__host="127.0.0.1") as daemon_rig,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session,
    ):
        url = f"https://localhost:{port}"
        async with session.get(f"{url}/api/health", headers=ELSEWHERE) as answer:
            assert (answer.status, (await answer.json())["status"]) == (200, "ok")
        async with session.get(f"{url}/api/watches", headers=ELSEWHERE) as answer:
            assert answer.status == 401
        async with session.get(f"{url}/tls/authority.crt", headers=ELSEWHERE) as answer:
            assert answer.content_type == "application/x-x509-ca-cert"
            assert await answer.read() == authority.pem()
        async with session.get(f"{url}/", headers={"Host": f"notes.local:{port}"}) as answer:
            assert answer.status == 200
        async with session.get(f"{url}/", headers={"Host": f"other.local:{port}"}) as answer:
            assert answer.status == 403
        status = await get(daemon_rig, "/api/tls")
        assert status["address"] == f"https://notes.local:{port}/"
        assert status["fingerprint"] == info.fingerprint
        assert status["authority"] == f"https://notes.local:{port}/tls/authority.crt"
        assert set("".join(status["qr"])) == {"0", "1"}
        key = key_of(daemon_rig, "*:read,write")
        await expect(daemon_rig, 403, "GET", "/api/tls", headers=key)
        logs = "".join(path.read_text() for path in daemon_rig.vault.rglob("*.jsonl"))
        assert "PRIVATE KEY" not in logs


async def test_without_an_authority_it_serves_plainly_and_says_what_is_missing(
    live: Live, port: int
):
    async with live(tls__port=port) as daemon_rig:
        assert "nothing is served encrypted" in daemon_rig.daemon.watched.problems.open["tls"]
        assert (await get(daemon_rig, "/api/tls"))["address"] is None
        await expect(daemon_rig, 404, "GET", "/tls/authority.crt")
        body = {"auth_mode": "disabled"}  # while others reach it, everyone needs a key
        settings = "/api/auth/settings"
        await expect(daemon_rig, 409, "PUT", settings, json=body, says="other machines")
