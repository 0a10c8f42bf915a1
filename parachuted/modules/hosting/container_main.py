"""The program in the container of an untrusted module: it loads the approved copy as the daemon
would, and serves it on a unix socket. The daemon trusts nothing that it says.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import aiohttp
from aiohttp import web
from pydantic import TypeAdapter

from parachuted.access.caller import NO_CALLER
from parachuted.access.notes import NoteBatch, NoteStream, Upload
from parachuted.errors import ActRefusedError, EditRefusedError, ModuleFailedError
from parachuted.modules.hosting.host import Args, HandlerCall, InterfaceMethods
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.service_calls import (
    ACCESSES,
    API_SOCKET,
    CALL_HEADER,
    LARGEST_UPLOAD,
    METHODS,
    MODULE_SOCKET,
    SERVICES,
    answer_document,
    error_document,
    error_of,
    json_of,
    remote_value,
    source_of,
)
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.arguments import RequestParts
from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.registry.manifest import FILE, read_manifest
from parachuted.modules.results import dump_json, to_json
from parachuted.modules.services import CurrentCall, Services
from parachuted.vault import NOTE_SUFFIXES

CALL: ContextVar[str] = ContextVar("parachuted_call", default="")
"""The id of the call that the code works on; all that it begins has it too."""

_LARGEST = 64 << 20
_NOW_S = 30.0
_OK = 200
_ABSENT = uuid4().hex  # the default of a state value that is absent
_DECLARED: TypeAdapter[ModuleDeclaration] = TypeAdapter(ModuleDeclaration)


def main() -> None:
    """Serve one module until the daemon closes stdin."""
    started = json.loads(sys.stdin.buffer.readline())
    os.dup2(1, 2)  # all that is printed is for the module's log
    threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
    asyncio.run(_serve(**started))


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


async def _serve(
    module: dict[str, Any], data_folder: str, key: str, api: str, own: str, *, has_model: bool
) -> None:
    copy, import_paths = Path(module["copy"]), tuple(map(Path, module["import_paths"]))
    manifest = read_manifest((copy / FILE).read_bytes())
    found = {**module, "copy": copy, "import_paths": import_paths, "manifest": manifest}
    approved = ApprovedModule(**found)
    log = logging.getLogger(f"parachuted.modules.{approved.name}")
    log.setLevel(logging.DEBUG)
    log.propagate = False
    for logger in (log, logging.getLogger("parachuted")):  # and what is said of the module
        logger.addHandler(_LogLines())
    daemon = DaemonConnection(_short(api, API_SOCKET), key, approved.name)
    services = cast(
        "Services",
        HttpServices(approved, log, daemon, data_folder=Path(data_folder), has_model=has_model),
    )
    app = web.Application(client_max_size=_LARGEST)
    app.router.add_post("/{verb}", _ServedModule(approved, services).answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    await web.UnixSite(runner, _short(own, MODULE_SOCKET), backlog=512).start()
    _say({"ready": True})
    await asyncio.Event().wait()  # for ever: the end of stdin is the end of the process


def _short(folder: str, name: str) -> str:
    """The path of a socket has at most 107 bytes."""
    return f"/proc/self/fd/{os.open(folder, os.O_PATH | os.O_CLOEXEC)}/{name}"


def _say(document: Mapping[str, object]) -> None:
    os.write(1, f"\n{json.dumps(document)}\n".encode())


class _LogLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _say({"level": record.levelno, "text": self.format(record)})


class _ServedModule:
    def __init__(self, approved: ApprovedModule, services: Services) -> None:
        self._running = InProcessHost(
            approved, services, on_problem=lambda: _say({"problem": self._running.problem})
        )

    async def answer(self, request: web.Request) -> web.Response:
        CALL.set(request.headers.get(CALL_HEADER, ""))
        try:
            asked = json_of(await request.read())
            answer = answer_document(await self._done(request.match_info["verb"], asked))
        except Exception as error:  # noqa: BLE001  it goes to the caller
            answer = error_document(error)
        return web.Response(body=dump_json({**answer, "problem": self._running.problem}))

    async def _done(self, verb: str, asked: dict[str, Any]) -> object:
        running = self._running
        match verb:
            case "start":
                await running.start()
                return _DECLARED.dump_python(running.declared, mode="json")
            case "interface":
                return to_json(await running.call_interface(**asked, caller=NO_CALLER))
            case "call":
                return await running.call(_call_of(**asked))
            case "tell":
                await running.tell(_call_of(**asked))
            case "stop":
                await running.stop()
        return None


def _call_of(request: dict[str, Any], source: dict[str, Any] | None, **asked: Any) -> HandlerCall:  # noqa: ANN401  JSON
    parts = RequestParts(**{**request, "source": source_of(source)})
    return HandlerCall(request=parts, **asked)


class DaemonConnection:
    """The daemon's API, at a unix socket. Its errors arrive as themselves."""

    def __init__(self, at: str, key: str, module: str) -> None:
        self._at, self._key, self._module = at, key, module
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}
        self._other_loop: asyncio.AbstractEventLoop | None = None

    async def ask(self, service: str, /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401  what the service returns
        method = METHODS[service]
        return method.load_result(await self.send(service, method.dump_body(args, kwargs)))

    def ask_now(self, service: str, /, *args: object) -> Any:  # noqa: ANN401  what the service returns
        """The same for synchronous code; it blocks the loop until the answer arrives."""
        if self._other_loop is None:
            self._other_loop = asyncio.new_event_loop()
            threading.Thread(target=self._other_loop.run_forever, daemon=True).start()
        method = METHODS[service]
        sent = self.send(service, method.dump_body(args, {}), limit_s=_NOW_S)
        answer = asyncio.run_coroutine_threadsafe(sent, self._other_loop).result()
        return method.load_result(answer)

    async def send(self, service: str, body: bytes, *, limit_s: float | None = None) -> bytes:
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            self._sessions[loop] = aiohttp.ClientSession(
                "http://localhost",
                connector=aiohttp.UnixConnector(self._at, limit=48),
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={
                    "Authorization": f"Bearer {self._key}",
                    "Content-Type": "application/json",
                },
            )
        path = SERVICES.format(name=self._module, service=service)
        headers = {CALL_HEADER: CALL.get()} if CALL.get() else {}
        try:
            async with (
                asyncio.timeout(limit_s),
                self._sessions[loop].post(path, data=body, headers=headers) as response,
            ):
                answer = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ModuleFailedError(f"the daemon did not answer: {error}") from error
        if response.status != _OK:
            raise error_of(json_of(answer))
        return answer


class HttpAccess:
    """One access of a module, such as `self.vault`."""

    def __init__(self, name: str, daemon: DaemonConnection) -> None:
        self._name, self._daemon = name, daemon

    def __getattr__(self, name: str) -> Callable[..., Any]:
        service = f"{self._name}.{name}"
        if service not in METHODS:
            raise AttributeError(f"{self._name} has no method {name}")
        return partial(self._daemon.ask, service)


class HttpVault(HttpAccess):
    """`GrantedVault` whose notes come one at a time, and whose uploads are small."""

    def read_notes(self, pattern: str | Sequence[str] = "**") -> NoteStream:
        return NoteStream(self._batches(pattern))

    async def _batches(self, pattern: str | Sequence[str]) -> AsyncIterator[NoteBatch]:
        if isinstance(pattern, str):
            pattern = [path for path in await self.list(pattern) if path.endswith(NOTE_SUFFIXES)]
        for path in pattern:
            notes, left_out = await self._daemon.ask("notes_at", [path])
            yield NoteBatch(notes=tuple(notes), left_out=left_out)

    async def upload(self, path: str, chunks: AsyncIterable[bytes]) -> Upload:
        data = bytearray()
        async for piece in chunks:
            data += piece
            if len(data) > LARGEST_UPLOAD:
                raise EditRefusedError(
                    f"a module in a container uploads at most {LARGEST_UPLOAD >> 20} MB"
                )
        found: Upload = await self._daemon.ask("upload_bytes", path, bytes(data))
        return found


class HttpState(HttpAccess):
    """`StateAccess` whose default may be anything."""

    async def get(self, key: str, default: object = None) -> object:
        found = await self._daemon.ask("state.get", key, _ABSENT)
        return default if found == _ABSENT else found


_HTTP_ACCESSES: Mapping[str, type[HttpAccess]] = {"vault": HttpVault, "state": HttpState}


class HttpServices:
    """The `Services` of a module in a container."""

    def __init__(
        self,
        approved: ApprovedModule,
        log: logging.Logger,
        daemon: DaemonConnection,
        *,
        data_folder: Path,
        has_model: bool,
    ) -> None:
        self.name, self.config, self.log = approved.name, approved.config, log
        self.data_folder, self.has_model, self.daemon = data_folder, has_model, daemon
        for name in ACCESSES:
            setattr(self, name, _HTTP_ACCESSES.get(name, HttpAccess)(name, daemon))
        self.run_agent = partial(daemon.ask, "run_agent")
        self.suggest = partial(daemon.ask, "suggest")

    @property
    def current_call(self) -> CurrentCall:
        found: CurrentCall = self.daemon.ask_now("current_call")
        return found

    def on_behalf_of(
        self, person: str, *, is_strangers: bool = False
    ) -> AbstractContextManager[None]:
        del is_strangers
        raise ActRefusedError(f"only a trusted module may act for a person, such as {person[:80]}")

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        self.daemon.ask_now("publish", event, data)

    def get_interface(self, name: str) -> object | None:
        async def call(method: str, args: Args, kwargs: Mapping[str, Any]) -> object:
            return remote_value(await self.daemon.ask("interface", name, method, args, kwargs))

        is_there = self.daemon.ask_now("has_interface", name)
        return InterfaceMethods(name, call) if is_there else None

    async def resolve_suggestion(self, suggestion_id: str, decision: str) -> str:
        raise ActRefusedError(f"only a trusted module may {decision[:20]} {suggestion_id[:80]}")


if __name__ == "__main__":
    main()
