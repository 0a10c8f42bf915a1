#!/usr/bin/env bash
# Guess: a coroutine that connects, when it is cancelled before it has connected, leaves nothing running, as
# asyncio's own do.
# Seen: hikari 2.7.0's GatewayBot.start, cancelled while the gateway has not greeted it yet, leaves tasks of its
# shard behind, and they are there after `close`, too, which raises nothing.
# Why it matters: who gives up a connection after a time limit has a second one beside it at the next try, and both
# answer; the program's loop does not come to rest.
source "$(dirname "$0")/support/common.sh"

cat >"$work/run.py" <<'X'
import asyncio
from importlib.metadata import version

import hikari
from aiohttp import web

connections = 0


async def gateway(request: web.Request) -> web.WebSocketResponse:
    global connections
    connections += 1
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for _ in socket:
        pass
    return socket


async def main() -> None:
    async def where(request: web.Request) -> web.Response:
        limit = {"total": 9, "remaining": 9, "reset_after": 0, "max_concurrency": 1}
        return web.json_response({"url": f"ws://{request.host}/gateway", "shards": 1, "session_start_limit": limit})

    app = web.Application()
    app.router.add_get("/api/v10/gateway/bot", where)
    app.router.add_get("/gateway/", gateway)
    app.router.add_get("/gateway", gateway)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    before = asyncio.all_tasks()
    bot = hikari.GatewayBot("MQ.b.c", banner=None, logs=None, suppress_optimization_warning=True,
                            rest_url=f"http://127.0.0.1:{port}/api/v10")
    starting = asyncio.create_task(bot.start(check_for_updates=False))
    while not connections:
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    starting.cancel()
    await asyncio.wait([starting])
    await asyncio.sleep(0.5)
    left = sorted(task.get_name() for task in asyncio.all_tasks() - before if "shard" in task.get_name())
    try:
        await bot.close()
        closed = "closes"
    except hikari.ComponentStateConflictError:
        closed = "says that it is not running"
    await asyncio.sleep(0.5)
    after = sorted(task.get_name() for task in asyncio.all_tasks() - before if "shard" in task.get_name())
    print(f"hikari {version('hikari')}: tasks of the shard are left: {bool(left)}; close {closed}; left afterwards: {bool(after)}")
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


asyncio.run(main())
X
python_packages hikari==2.7.0
timeout 60 "$python" "$work/run.py" | tee "$work/out"
grep -q "are left: True; close closes; left afterwards: True" "$work/out" || changed "see the line above"
