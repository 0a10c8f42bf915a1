"""Where the gateway is reached: one port for all, sockets in private folders."""

from __future__ import annotations

import socket
import stat

import aiohttp
import pytest
from aiohttp import web

from parachuted.agents.gateway.listening import Listening


async def answer(_request: web.BaseRequest) -> web.Response:
    return web.Response(text="here")


async def test_the_port_is_of_this_machine_alone_and_stays():
    listening = Listening(answer)
    port = await listening.port()
    assert await listening.port() == port
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/") as response:
        assert await response.text() == "here"
    with socket.socket() as elsewhere:
        elsewhere.settimeout(1)
        assert elsewhere.connect_ex(("127.0.0.2", port)) != 0
    await listening.close()
    with socket.socket() as closed:
        assert closed.connect_ex(("127.0.0.1", port)) != 0


async def test_what_lies_in_the_socket_s_place_is_replaced_and_gone_afterwards(tmp_path):
    (tmp_path / "gateway.sock").write_text("left by a crash")
    async with Listening(answer).socket(tmp_path, answer) as path:
        assert stat.S_ISSOCK(path.stat().st_mode)
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
            session.get("http://localhost/") as response,
        ):
            assert await response.text() == "here"
    assert not path.exists()


async def test_where_no_socket_is_wanted_there_is_none():
    async with Listening(answer).socket(None, answer) as path:
        assert path is None


async def test_a_folder_in_the_socket_s_place_is_an_error(tmp_path):
    (tmp_path / "gateway.sock").mkdir()
    with pytest.raises(OSError, match=r"gateway\.sock"):
        async with Listening(answer).socket(tmp_path, answer):
            pass
