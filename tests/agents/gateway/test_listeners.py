"""Where the gateway is reached: one port for all, sockets in private folders."""

from __future__ import annotations

import asyncio
import logging
import socket
import stat
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from aiohttp import web

from parachuted.agents.gateway.listeners import GatewayListeners


async def answer(_request: web.BaseRequest) -> web.Response:
    return web.Response(text="here")


async def get(url: str, socket: Path | None = None) -> str:
    connector = None if socket is None else aiohttp.UnixConnector(str(socket))
    async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as response:
        return f"{response.status} {await response.text()}"


async def test_the_port_is_of_this_machine_alone_and_stays():
    listening = GatewayListeners(answer)
    port = await listening.port()
    assert await listening.port() == port
    assert await get(f"http://127.0.0.1:{port}/") == "200 here"
    with socket.socket() as elsewhere:
        elsewhere.settimeout(1)
        assert elsewhere.connect_ex(("127.0.0.2", port)) != 0
    await listening.close()
    with socket.socket() as closed:
        assert closed.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("steps", range(6))
async def test_a_caller_that_is_cancelled_meanwhile_leaves_no_socket_open(steps):
    def listening() -> list[Any]:
        return [each.laddr for each in psutil.Process().net_connections("tcp") if not each.raddr]

    before = listening()
    gateway = GatewayListeners(answer)
    opening = asyncio.get_running_loop().create_task(gateway.port(), name="asks for it")
    for _ in range(steps):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    await gateway.close()

    assert listening() == before


async def test_what_lies_in_the_socket_s_place_is_replaced_and_gone_afterwards(tmp_path):
    (tmp_path / "gateway.sock").write_text("left by a crash")
    async with GatewayListeners(answer).socket(tmp_path, answer) as path:
        assert stat.S_ISSOCK(path.stat().st_mode)
        assert await get("http://localhost/", path) == "200 here"
    assert not path.exists()
    path.mkdir()
    with pytest.raises(OSError, match=r"gateway\.sock"):
        async with GatewayListeners(answer).socket(tmp_path, answer):
            pass


async def test_what_is_not_http_is_answered_so_and_fills_no_log(tmp_path, caplog):
    async with GatewayListeners(answer).socket(tmp_path, answer) as path:
        for wrong in (
            b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1_000 + b"\r\n",
            b"\x16\x03\x01\r\n\r\n",
            b"GET / HTTP/1.1\r\n\0: x\r\n\r\n",
        ):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + wrong)
            assert b" 400 Bad Request" in await asyncio.wait_for(reader.read(), 30)
            writer.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_fault_of_ours_is_logged(tmp_path, caplog):
    async def fail(_request: web.BaseRequest) -> web.Response:
        raise ValueError("ours")

    async with GatewayListeners(fail).socket(tmp_path, fail) as path:
        assert (await get("http://x/", path)).startswith("500")
    assert "ours" in caplog.text
