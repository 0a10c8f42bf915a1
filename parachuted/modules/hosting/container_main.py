"""The program in the container of an untrusted module: `python -m
parachuted.modules.hosting.container_main`.

It reads from stdin which module it is, loads the approved copy as the daemon would, and serves it
on a unix socket. What the module asks goes to the daemon's HTTP API. The daemon trusts nothing that
it says: the container and the API confine it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter

from parachuted.access.authority import NO_AUTHORITY
from parachuted.modules.hosting.http_services import CALL, DaemonConnection, HttpBody, HttpServices
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.service_calls import (
    API_SOCKET,
    CALL_HEADER,
    MODULE_SOCKET,
    StartDocument,
    error_document,
    json_of,
)
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.results import BytesResponse, FileResponse, Response, to_json
from parachuted.modules.streams import ServerEvent, StreamOpened

_LARGEST = 64 << 20
_FAILED = 400
_DECLARED: TypeAdapter[ModuleDeclaration] = TypeAdapter(ModuleDeclaration)


def main() -> None:
    """Serve one module until the daemon closes stdin."""
    started = StartDocument.model_validate_json(sys.stdin.buffer.readline())
    os.dup2(1, 2)  # all that is printed is for the module's log
    threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
    asyncio.run(_serve(started))


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


async def _serve(started: StartDocument) -> None:
    log = logging.getLogger(f"parachuted.modules.{started.name}")
    log.setLevel(logging.DEBUG)
    log.propagate = False
    for logger in (log, logging.getLogger("parachuted")):  # and what is said of the module
        logger.addHandler(_LogLines())
    services = HttpServices(
        started.name,
        started.config,
        log,
        DaemonConnection(_short(started.api, API_SOCKET), started.key, started.name),
        data_folder=started.data_folder,
        has_model=started.has_model,
    )
    served = _Served(started.approved(), services)
    runner = web.AppRunner(
        served.app(), access_log=None, handler_cancellation=True, shutdown_timeout=0
    )
    await runner.setup()
    await web.UnixSite(runner, _short(started.own, MODULE_SOCKET), backlog=512).start()
    _say({"ready": True})
    await asyncio.Event().wait()  # for ever: the end of stdin is the end of the process


def _short(folder: Path, name: str) -> str:
    """The path of a socket has at most 107 bytes."""
    return f"/proc/self/fd/{os.open(folder, os.O_PATH | os.O_CLOEXEC)}/{name}"


def _say(document: Mapping[str, object]) -> None:
    """A line on stdout, where all else is what the module prints."""
    os.write(1, f"\n{json.dumps(document)}\n".encode())


class _LogLines(logging.Handler):
    """Sends what is logged to the daemon's log."""

    def emit(self, record: logging.LogRecord) -> None:
        _say({"level": record.levelno, "text": self.format(record)})


class _Served:
    """What the daemon may ask of the module."""

    def __init__(self, approved: ApprovedModule, services: HttpServices) -> None:
        self._running = InProcessHost(approved, services, on_problem=self._report_problem)
        self._daemon = services.daemon
        self._problem: str | None = None

    def app(self) -> web.Application:
        app = web.Application(client_max_size=_LARGEST, middlewares=[self._answered])
        for name in ("start", "stop", "call", "tell", "stream", "interface"):
            app.router.add_post(f"/{name}", getattr(self, f"_{name}"))
        return app

    @web.middleware
    async def _answered(self, request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ANN401  aiohttp's
        CALL.set(request.headers.get(CALL_HEADER, ""))
        try:
            answer: web.StreamResponse = await handler(request)
        except Exception as error:  # noqa: BLE001  it goes to the caller
            answer = web.json_response(self._failure(error), status=_FAILED)
        self._report_problem()
        return answer

    def _failure(self, error: Exception) -> Mapping[str, object]:
        return {**error_document(error), "problem": self._running.problem}

    def _report_problem(self) -> None:
        if self._running.problem != self._problem:
            self._problem = self._running.problem
            _say({"problem": self._problem})

    async def _start(self, _request: web.Request) -> web.Response:
        await self._running.start()
        declared = _DECLARED.dump_json(self._running.declared)
        return web.Response(body=declared, content_type="application/json")

    async def _stop(self, _request: web.Request) -> web.Response:
        await self._running.stop()
        return web.json_response(None)

    async def _call(self, request: web.Request) -> web.Response:
        asked = json_of(await request.read())
        source = self._source(asked.pop("source"))
        return web.json_response(answer_of(await self._running.call(**asked, source=source)))

    async def _tell(self, request: web.Request) -> web.Response:
        await self._running.tell(**json_of(await request.read()))
        return web.json_response(None)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        asked = json_of(await request.read())
        source = self._source(asked.pop("source"))
        response = web.StreamResponse()
        await response.prepare(request)
        items: AsyncIterator[object] = self._running.stream(**asked, source=source)
        try:
            async with aclosing(items):  # type: ignore[type-var]
                async for item in items:
                    await response.write(json.dumps(answer_of(item)).encode() + b"\n")
            last: Mapping[str, object] = {"end": True}
        except Exception as error:  # noqa: BLE001  it goes to the caller
            last = self._failure(error)
        await response.write(json.dumps(last).encode() + b"\n")
        return response

    def _source(self, head: Mapping[str, Any] | None) -> HttpBody | None:
        return None if head is None else HttpBody(self._daemon, head["content_type"], head["size"])

    async def _interface(self, request: web.Request) -> web.Response:
        asked = json_of(await request.read())
        answer = await self._running.call_interface(**asked, authority=NO_AUTHORITY)
        return web.json_response(to_json(answer))


def answer_of(item: object) -> Mapping[str, object]:
    """What a handler answers or streams, as JSON: its kind, and what that holds."""
    if isinstance(item, StreamOpened):
        return {"kind": "opened"}
    if isinstance(item, BytesResponse):
        kept = {"content_type": item.content_type, "filename": item.filename}
        return {"kind": "bytes", "data": base64.b64encode(item.data).decode(), **kept}
    for kind, made in (("response", Response), ("file", FileResponse), ("event", ServerEvent)):
        if isinstance(item, made):
            fields: dict[str, object] = {**to_json(item)}  # type: ignore[dict-item]
            return {"kind": kind, **fields}
    return {"kind": "value", "value": item}


if __name__ == "__main__":
    main()
