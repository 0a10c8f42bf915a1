"""Bare: an aiohttp server whose one handler answers the same bytes each time.

Run as a program: prints its port, serves until killed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aiohttp import web


async def serve(answer: bytes) -> None:
    """Answer every GET of `/` with those bytes as JSON."""

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(body=answer, content_type="application/json")

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]).read_bytes()))
