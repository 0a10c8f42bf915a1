"""HTTP routes: which of them answer on which port."""

from __future__ import annotations

import socket

import aiohttp

from tests.stories.daemon_rig import Live


async def test_an_app_finds_the_supervisor_alone_on_a_port_of_its_own(live: Live):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with live(api__supervisor_port=port) as daemon_rig:
            assert "api.supervisor_port" in daemon_rig.daemon.watched.problems.open["supervisor"]
    async with (
        live(api__supervisor_port=port) as daemon_rig,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as app,
    ):
        found = {
            path: (await app.get(path)).status
            for path in ("/supervisor/status", "/supervisor/models", "/api/health", "/api/notes")
        }
        assert found == {
            "/supervisor/status": 200,
            "/supervisor/models": 200,
            "/api/health": 404,
            "/api/notes": 404,
        }
        assert (await (await app.get("/supervisor/status")).json())[
            "main_server_port"
        ] == daemon_rig.daemon.port
