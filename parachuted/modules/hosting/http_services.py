"""A module's services in its container: each is a call of the daemon's HTTP API, with the module's
key and the call on whose behalf its code works.
"""

from __future__ import annotations

import http.client
import json
import logging
import socket
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote
from uuid import uuid4

import aiohttp
from pydantic import TypeAdapter

from parachuted.access.notes import Note, NoteBatch, NoteStream, Upload
from parachuted.errors import ActRefusedError, ModuleFailedError
from parachuted.modules.agent_runs import RunAccess
from parachuted.modules.hosting.host import Args, InterfaceMethods
from parachuted.modules.hosting.service_calls import (
    ACCESSES,
    CALL_HEADER,
    NOTE,
    PLAIN,
    SERVICES,
    UPLOADS,
    error_of,
    json_of,
    methods_of,
    remote_value,
)
from parachuted.modules.results import to_json
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.modules.services import (
    ActivityAccess,
    ContextAccess,
    CurrentCall,
    FolderAccess,
    StateAccess,
)
from parachuted.modules.streams import PartHead
from parachuted.runs.granted_vault import GrantedVault

CALL: ContextVar[str] = ContextVar("parachuted_call", default="")
"""The id of the call that the code works on; all that it begins has it too."""

_NOW_S = 30.0
_ABSENT = uuid4().hex  # the default of a state value that is absent
_OK = 200
_CURRENT_CALL: TypeAdapter[CurrentCall] = TypeAdapter(CurrentCall)
_UPLOAD: TypeAdapter[Upload] = TypeAdapter(Upload)
_PART: TypeAdapter[PartHead | None] = TypeAdapter(PartHead | None)


class DaemonConnection:
    """The daemon's API, at a unix socket. Its errors arrive as themselves."""

    def __init__(self, at: str, key: str, module: str) -> None:
        self._at, self._key, self._module = at, key, module
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, service: str, body: bytes = b"{}") -> bytes:
        async with self._asked("POST", self._path(service), body) as response:
            return await response.read()

    def ask_now(self, service: str, body: bytes = b"{}") -> bytes:
        """The same for synchronous code; it blocks the loop until the answer arrives."""
        connection = _UnixConnection(self._at)
        try:
            connection.request("POST", self._path(service), body, self._headers())
            response = connection.getresponse()
            answer = response.read()
        except OSError as error:
            raise ModuleFailedError(f"the daemon did not answer: {error}") from error
        finally:
            connection.close()
        if response.status != _OK:
            raise error_of(json_of(answer))
        return answer

    async def lines(self, service: str, body: bytes) -> AsyncIterator[bytes]:
        async with self._asked("POST", self._path(service), body) as response:
            rest = b""
            async for piece in response.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield line

    async def send(self, path: str, pieces: AsyncIterable[bytes]) -> bytes:
        target = f"{UPLOADS.format(name=self._module)}?path={quote(path, safe='')}"
        async with self._asked("PUT", target, pieces) as response:
            return await response.read()

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, body: bytes | AsyncIterable[bytes]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                "http://localhost",
                connector=aiohttp.UnixConnector(self._at, limit=48),
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        try:
            async with self._session.request(
                method, path, data=body, headers=self._headers()
            ) as response:
                if response.status != _OK:
                    raise error_of(json_of(await response.read()))
                yield response
        except aiohttp.ClientError as error:
            raise ModuleFailedError(f"the daemon did not answer: {error}") from error

    def _path(self, service: str) -> str:
        return SERVICES.format(name=self._module, service=service)

    def _headers(self) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        return {**headers, CALL_HEADER: CALL.get()} if CALL.get() else headers


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, at: str) -> None:
        super().__init__("localhost", timeout=_NOW_S)
        self._at = at

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._at)


class HttpAccess:
    """One access of a module, such as `self.vault`."""

    def __init__(self, name: str, daemon: DaemonConnection) -> None:
        self._name, self._daemon = name, daemon
        self._methods = methods_of(ACCESSES[name])

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_") or name not in self._methods:
            raise AttributeError(f"{self._name} has no method {name}")
        method = self._methods[name]

        async def call(*args: object, **kwargs: object) -> object:
            body = method.dump_body(args, kwargs)
            return method.load_result(await self._daemon.ask(f"{self._name}.{name}", body))

        return call


class HttpVault(HttpAccess):
    """`GrantedVault` whose two streams are streams of HTTP as well."""

    def __init__(self, daemon: DaemonConnection) -> None:
        super().__init__("vault", daemon)

    def read_notes(self, pattern: str | Sequence[str] = "**") -> NoteStream:
        asked = pattern if isinstance(pattern, str) else list(pattern)
        return NoteStream(self._batches(json.dumps({"pattern": asked}).encode()))

    async def _batches(self, body: bytes) -> AsyncIterator[NoteBatch]:
        async for line in self._daemon.lines("vault.read_notes", body):
            found = json_of(line)
            if "error" in found:
                raise error_of(found)
            notes: tuple[Note, ...] = tuple(map(NOTE.validate_python, found.get("notes", ())))
            yield NoteBatch(notes=notes, left_out=found.get("left_out", {}))

    async def upload(self, path: str, chunks: AsyncIterable[bytes]) -> Upload:
        return _UPLOAD.validate_json(await self._daemon.send(path, chunks))


class HttpState(HttpAccess):
    """`StateAccess` whose default may be anything."""

    def __init__(self, daemon: DaemonConnection) -> None:
        super().__init__("state", daemon)

    async def get(self, key: str, default: object = None) -> object:
        method = self._methods["get"]
        answer = await self._daemon.ask("state.get", method.dump_body((key, _ABSENT), {}))
        found = method.load_result(answer)
        return default if found == _ABSENT else found


class HttpBody:
    """The body of the request that the present call answers."""

    def __init__(self, daemon: DaemonConnection, content_type: str, size: int | None) -> None:
        self._daemon, self.content_type, self.size = daemon, content_type, size

    async def read(self) -> bytes:
        return await self._daemon.ask("body.read")

    async def next_part(self) -> PartHead | None:
        return _PART.validate_json(await self._daemon.ask("body.next_part"))


class HttpServices:
    """The `Services` of a module in a container."""

    def __init__(
        self,
        name: str,
        config: Mapping[str, object],
        log: logging.Logger,
        daemon: DaemonConnection,
        *,
        data_folder: Path,
        has_model: bool,
    ) -> None:
        self.name, self.config, self.log, self.has_model = name, config, log, has_model
        self.data_folder = data_folder
        self.vault = cast("GrantedVault", HttpVault(daemon))
        self.folders = cast("FolderAccess", HttpAccess("folders", daemon))
        self.state = cast("StateAccess", HttpState(daemon))
        self.activity = cast("ActivityAccess", HttpAccess("activity", daemon))
        self.runs = cast("RunAccess", HttpAccess("runs", daemon))
        self.contexts = cast("ContextAccess", HttpAccess("contexts", daemon))
        self.schedules = cast("ScheduleAccess", HttpAccess("schedules", daemon))
        self.daemon = daemon

    @property
    def current_call(self) -> CurrentCall:
        return _CURRENT_CALL.validate_json(self.daemon.ask_now("current_call"))

    def on_behalf_of(
        self, person: str, *, is_strangers: bool = False
    ) -> AbstractContextManager[None]:
        del is_strangers
        raise ActRefusedError(f"only a trusted module may act for a person, such as {person[:80]}")

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        self.daemon.ask_now("publish", PLAIN["publish"].dump_body((event, data), {}))

    def get_interface(self, name: str) -> object | None:
        is_there = json_of(self.daemon.ask_now("has_interface", _body(name=name)))

        async def call(method: str, args: Args, kwargs: Mapping[str, Any]) -> object:
            asked = _body(name=name, method=method, args=args, kwargs=kwargs)
            return remote_value(json_of(await self.daemon.ask("interface", asked)))

        return InterfaceMethods(name, call) if is_there else None

    async def run_agent(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        return str(await self._ask("run_agent", agent, prompt, options))

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str:
        return str(await self._ask("suggest", action, path, payload, reasoning, base))

    async def resolve_suggestion(self, suggestion_id: str, decision: str) -> str:
        raise ActRefusedError(f"only a trusted module may {decision[:20]} {suggestion_id[:80]}")

    async def _ask(self, service: str, *args: object) -> object:
        method = PLAIN[service]
        return method.load_result(await self.daemon.ask(service, method.dump_body(args, {})))


def _body(**fields: object) -> bytes:
    return json.dumps(to_json(fields)).encode()
