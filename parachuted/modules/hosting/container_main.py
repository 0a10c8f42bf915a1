"""The program in the container of an untrusted module: it loads the approved copy as the daemon
would, and answers the calls on its stdin. The daemon trusts nothing that it says.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast
from uuid import uuid4

import aiohttp
from pydantic import TypeAdapter

from parachuted.access.caller import NO_CALLER
from parachuted.access.notes import NoteBatch, NoteStream, Upload
from parachuted.errors import ActRefusedError, ModuleFailedError
from parachuted.modules.hosting.host import Args, HandlerCall, InterfaceMethods
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.service_calls import (
    ACCESSES,
    API_SOCKET,
    CALL_HEADER,
    ERRORS,
    LINES,
    METHODS,
    SERVICES,
    ModuleLine,
    SentError,
    read_sent,
    remote_value,
)
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.arguments import RequestParts
from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.registry.manifest import FILE, read_manifest
from parachuted.modules.results import BytesResponse, Response, body_in_memory, to_json
from parachuted.modules.services import CurrentCall, Services
from parachuted.texts.json_limits import check_json
from parachuted.vault import NOTE_SUFFIXES

CALL: ContextVar[str] = ContextVar("parachuted_call", default="")
"""The id of the call that the code works on; all that it begins has it too."""

_OK = 200
_LARGEST = 30 << 20  # the daemon ends a container whose line has more than 32 MB
_ABSENT = uuid4().hex  # the default of a state value that is absent
_DECLARED: TypeAdapter[ModuleDeclaration] = TypeAdapter(ModuleDeclaration)


def main() -> None:
    """Serve one module until the daemon closes stdin."""
    asyncio.run(_serve(os.dup(1)))


async def _serve(stdout: int) -> None:
    """Answer each line of stdin on that descriptor, and log there what the module prints."""
    loop, module = asyncio.get_running_loop(), _ServedModule(stdout)
    calls = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what the module starts reads no calls
    printed, printing = os.pipe()
    for end in (1, 2):
        os.dup2(printing, end)

    def read_calls() -> None:
        for line in calls:
            asyncio.run_coroutine_threadsafe(module.answer(**json.loads(line)), loop)
        os._exit(0)

    def read_printed() -> None:
        with os.fdopen(printed, errors="replace") as lines:
            for line in lines:
                module.say(text=line.rstrip())

    for work in (read_calls, read_printed):
        threading.Thread(target=work, name=work.__name__, daemon=True).start()
    await asyncio.Event().wait()  # for ever: the end of stdin is the end of the process


class _ServedModule(logging.Handler):
    """The module, and the log of what it and we say of it."""

    def __init__(self, stdout: int) -> None:
        super().__init__()
        self._stdout, self._turn = os.fdopen(stdout, "wb", 0), threading.Lock()
        self._running: InProcessHost | None = None

    def say(self, call: str = "", **line: Any) -> None:  # noqa: ANN401  as ModuleLine takes it
        problem = self._running.problem if self._running is not None else None
        try:
            module_line = ModuleLine(call=call, **line, problem=problem)
            data = LINES.dump_json(module_line, exclude_defaults=True)
            check_json(data)  # as the daemon does, which takes any other line for printed text
            if len(data) > _LARGEST:
                raise ValueError("it has more than 30 MB")  # noqa: TRY301  as for the others
        except ValueError as error:  # pydantic's are such
            why = f"its answer cannot be sent: {str(error)!a}"
            instead: dict[str, Any] = {"text": why}
            if call:
                instead = {"error": SentError.of(ModuleFailedError(why))}
            data = LINES.dump_json(ModuleLine(call=call, **instead), exclude_defaults=True)
        with self._turn:
            self._stdout.write(data + b"\n")

    def emit(self, record: logging.LogRecord) -> None:
        self.say(text=self.format(record), level=record.levelno)

    async def answer(self, call: str, verb: str, asked: dict[str, Any]) -> None:
        CALL.set(call)
        try:
            result = await self._done(verb, asked)
        except Exception as error:  # noqa: BLE001  it goes to the caller
            self.say(call=call, error=SentError.of(error))
            return
        kinds = {BytesResponse: "file", Response: "response"}
        self.say(call=call, **{kinds.get(type(result), "value"): result})

    async def _done(self, verb: str, asked: dict[str, Any]) -> object:
        if verb == "start":
            self._running = running = self._load(**asked)
            await running.start()
            return _DECLARED.dump_python(running.declared, mode="json")
        running = cast("InProcessHost", self._running)
        if verb == "interface":
            return to_json(await running.call_interface(**asked, caller=NO_CALLER))
        if verb == "stop":
            await running.stop()
            return None
        request, body = asked.pop("request"), asked.pop("body")
        source = body_in_memory(body[0], base64.b64decode(body[1])) if body else None
        parts = RequestParts(**{**request, "source": source})
        return await running.call(HandlerCall(request=parts, **asked))

    def _load(self, module: dict[str, Any], **services: Any) -> InProcessHost:  # noqa: ANN401  JSON
        copy, import_paths = Path(module["copy"]), tuple(map(Path, module["import_paths"]))
        manifest = read_manifest((copy / FILE).read_bytes())
        found = {**module, "copy": copy, "import_paths": import_paths, "manifest": manifest}
        approved = ApprovedModule(**found)
        for name in (f"parachuted.modules.{approved.name}", "parachuted"):
            logging.getLogger(name).addHandler(self)
        log = logging.getLogger(f"parachuted.modules.{approved.name}")
        log.setLevel(logging.DEBUG)
        log.propagate = False
        given = cast("Services", HttpServices(approved, log, **services))
        return InProcessHost(approved, given, on_problem=self.say)


class DaemonConnection:
    """The daemon's API, at a unix socket. Its errors arrive as themselves."""

    def __init__(self, at: str, key: str, module: str) -> None:
        self._at, self._key, self._module = at, key, module

    async def ask(self, service: str, /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401  what the service returns
        method = METHODS[service]
        return method.load_result(await self.send(service, method.dump_body(args, kwargs)))

    def ask_now(self, service: str, /, *args: object) -> Any:  # noqa: ANN401  what the service returns
        """The same for synchronous code; it blocks the loop until the answer arrives."""
        with ThreadPoolExecutor(1) as thread:
            asking = partial(asyncio.run, self.ask(service, *args))
            return thread.submit(copy_context().run, asking).result()

    async def send(self, service: str, body: bytes) -> bytes:
        path = SERVICES.format(name=self._module, service=service)
        try:
            async with aiohttp.request(
                "POST",
                f"http://localhost{path}",
                data=body,
                headers={"Authorization": f"Bearer {self._key}", CALL_HEADER: CALL.get()},
                connector=aiohttp.UnixConnector(self._at),
                timeout=aiohttp.ClientTimeout(total=None),
            ) as response:
                answer = await response.read()
        except aiohttp.ClientError as error:
            raise ModuleFailedError(f"the daemon did not answer: {error}") from error
        if response.status != _OK:
            raise read_sent(ERRORS, answer).exception()
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
        data = b"".join([piece async for piece in chunks])
        upload: Upload = await self._daemon.ask("upload_bytes", path, data)
        return upload


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
        *,
        data_folder: str,
        has_model: bool,
        key: str,
        api: str,
    ) -> None:
        self.name, self.config, self.log = approved.name, approved.config, log
        self.data_folder, self.has_model = Path(data_folder), has_model
        # the path of a socket has at most 107 bytes
        at = f"/proc/self/fd/{os.open(api, os.O_PATH | os.O_CLOEXEC)}/{API_SOCKET}"
        self.daemon = daemon = DaemonConnection(at, key, approved.name)
        for name in ACCESSES:
            setattr(self, name, _HTTP_ACCESSES.get(name, HttpAccess)(name, daemon))
        self.suggest = partial(daemon.ask, "suggest")

    @property
    def current_call(self) -> CurrentCall:
        call: CurrentCall = self.daemon.ask_now("current_call")
        return call

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        self.daemon.ask_now("publish", event, data)

    def get_interface(self, name: str) -> object | None:
        async def call(method: str, args: Args, kwargs: Mapping[str, Any]) -> object:
            return remote_value(await self.daemon.ask("interface", name, method, args, kwargs))

        is_there = self.daemon.ask_now("has_interface", name)
        return InterfaceMethods(name, call) if is_there else None

    def __getattr__(self, name: str) -> NoReturn:
        raise ActRefusedError(f"only a trusted module may use {name}")


if __name__ == "__main__":
    main()
