"""Untrusted modules as clients of the API: the key of each, and on whose behalf it asks.

Every request names a call of the daemon that the module works on, and has that call's authority;
its start is one, for what it does by itself. A module can name another of its calls than the one
that it works on; so what it may do by its approved permissions, it can reveal to anyone who may
call it. For the same reason strangers' text that it read on one call marks all.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, TypeAdapter

from parachuted.access.authority import Authority, acting, pass_on
from parachuted.access.notes import Upload
from parachuted.access.origin import Taint
from parachuted.errors import ActRefusedError, EditRefusedError, ModuleFailedError
from parachuted.json_limits import check_json
from parachuted.keys import KeyRing, Scope, mint
from parachuted.modules.hosting.service_calls import (
    ACCESSES,
    NOTE,
    PLAIN,
    ServiceMethod,
    methods_of,
)
from parachuted.modules.module import is_every_modules
from parachuted.modules.services import CurrentCall, Services
from parachuted.modules.streams import BodySource, PartHead
from parachuted.vault import printable

SCOPE = "module-services"
LARGEST = 8 << 20
MOST_OPEN, _MOST_ENDED, _MOST_BODIES = 256, 1_000, 8
_SMALL, _AT_ONCE = 1 << 20, 4
_READS = frozenset({"vault.read", "vault.read_bytes", "vault.note", "folders.read"})
_UPLOAD: TypeAdapter[Upload] = TypeAdapter(Upload)
_PART: TypeAdapter[PartHead | None] = TypeAdapter(PartHead | None)


class _OtherServices:
    """What a module asks for that is no method of its services."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def current_call(self) -> CurrentCall:
        return self._services.current_call

    async def has_interface(self, name: str) -> bool:
        return self._services.get_interface(name) is not None

    async def interface(
        self, name: str, method: str, args: list[object], kwargs: dict[str, object]
    ) -> object:
        """Call another module's object: its own methods, never those that every module has, for
        they carry that module's rights.
        """
        found = self._services.get_interface(name)
        if found is None:
            raise ModuleFailedError(f"no module provides {name[:80]} now")
        is_its_own = not method.startswith("_") and not is_every_modules(method, found)
        function = getattr(found, method, None) if is_its_own else None
        if not callable(function):
            raise ModuleFailedError(f"{name[:80]} has no method {method[:80]}")
        result = function(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result


_OTHERS = methods_of(_OtherServices)


class _ReadNotes(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    pattern: str | list[str]


@dataclass(frozen=True, slots=True)
class _Call:
    authority: Authority
    source: BodySource | None


class ModuleClient:
    """One module, as the API answers it."""

    def __init__(self, services: Services, own: Authority, taint: Taint) -> None:
        """`own` is its own authority, that of `own_call`; `taint` is what its code has read, and
        outlives this one.
        """
        self.name, self._services = services.name, services
        self._others = _OtherServices(services)
        self._taint, self.own_call = taint, uuid4().hex
        self._large, self._reads = asyncio.Semaphore(_AT_ONCE), asyncio.Semaphore(_AT_ONCE)
        self._open = {self.own_call: _Call(replace(own, taint=taint), None)}
        self._ended: OrderedDict[str, _Call] = OrderedDict()  # what they began may go on

    @contextmanager
    def opened(self, authority: Authority, source: BodySource | None = None) -> Iterator[str]:
        """The id of a call for as long as it lasts. Raises ModuleFailedError while there are too
        many.
        """
        if len(self._open) >= MOST_OPEN:
            raise ModuleFailedError(
                f"the module {self.name} still works on {MOST_OPEN} calls, and gets no more until "
                f"some have ended; `parachute modules restart {self.name}` ends them"
            )
        bodies = sum(call.source is not None for call in self._open.values())
        if source is not None and bodies >= _MOST_BODIES:  # slow senders must not keep others out
            raise ModuleFailedError(
                f"the module {self.name} reads {bodies} bodies of requests already; try again later"
            )
        call = uuid4().hex
        self._open[call] = _Call(authority, source)
        self._has_read(authority)
        try:
            yield call
        finally:
            self._ended[call] = _Call(self._open.pop(call).authority, None)
            if len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)

    def room(self, length: int | None) -> AbstractAsyncContextManager[object]:
        """Room for a request of that length, while it is read and answered."""
        is_small = length is not None and length <= _SMALL
        return nullcontext() if is_small else self._large

    async def answer(self, service: str, body: bytes, call: str) -> bytes:
        """Raises what the service raises, and ModuleFailedError for an invalid request."""
        if service.startswith("body."):
            return await self._body(service, call)
        function, method = self._find(service)
        asked = method.load_body(body)
        async with self._reads if service in _READS else nullcontext():
            with self._acting(call):
                result = function(*asked.args, **asked.kwargs)
                result = await result if inspect.isawaitable(result) else result
            answer = await asyncio.to_thread(method.dump_result, result)
        if len(answer) > LARGEST:
            raise EditRefusedError(
                f"it is larger than {LARGEST >> 20} MB, which a module in a container is not given "
                "at once"
            )
        return answer

    async def read_notes(self, body: bytes, call: str) -> AsyncIterator[Mapping[str, Any]]:
        """The notes, each as it is read, and what was left out at the end."""
        check_json(body)
        pattern = _ReadNotes.model_validate_json(body).pattern
        with self._acting(call):
            stream = self._services.vault.read_notes(pattern)
            async for note in stream:
                yield {"notes": [NOTE.dump_python(note)]}
            yield {"left_out": {printable(path): why for path, why in stream.left_out.items()}}

    async def upload(self, path: str, pieces: AsyncIterable[bytes], call: str) -> bytes:
        with self._acting(call):
            return _UPLOAD.dump_json(await self._services.vault.upload(path, pieces))

    def _find(self, service: str) -> tuple[Callable[..., Any], ServiceMethod]:
        access, _, name = service.rpartition(".")
        if access in ACCESSES:
            owner, methods = getattr(self._services, access), methods_of(ACCESSES[access])
        elif name in PLAIN:
            owner, methods = self._services, PLAIN
        else:
            owner, methods = self._others, _OTHERS
        if name not in methods:
            raise ModuleFailedError(f"a module in a container cannot ask for {service[:80]!r}")
        return getattr(owner, name), methods[name]

    async def _body(self, service: str, call: str) -> bytes:
        found = self._open.get(call)
        if found is None or found.source is None:
            raise ModuleFailedError("the body of a request can be read until it is answered")
        if service == "body.read":
            return await found.source.read()
        return _PART.dump_json(await found.source.next_part())

    @contextmanager
    def _acting(self, call: str) -> Iterator[None]:
        found = self._open.get(call) or self._ended.get(call)
        if found is None:
            raise ActRefusedError(
                f"what the module {self.name} asks names no call of the daemon, or one that ended "
                "long ago: only work that a call led to can ask for anything"
            )
        authority = found.authority
        if self._taint and not authority.taint:
            pass_on(self._taint, authority.taint)
        try:
            with acting(authority):
                yield
        finally:
            self._has_read(authority)

    def _has_read(self, authority: Authority) -> None:
        if authority.taint and not self._taint:
            pass_on(authority.taint, self._taint)


class ModuleClients:
    """The modules in containers, by their keys, which are in memory alone."""

    def __init__(self, ring: KeyRing, clock: Callable[[], datetime]) -> None:
        self._ring, self._clock = ring, clock
        self._clients: dict[str, ModuleClient] = {}

    @contextmanager
    def admitted(self, client: ModuleClient) -> Iterator[str]:
        """A key for that module, which opens its own services and nothing else until this ends."""
        scope = Scope(module=SCOPE, capabilities=frozenset({"write"}))
        made = mint(f"module {client.name}", [scope], now=self._clock())
        self._clients[made.key.id] = client
        with self._ring.lent(made.key):
            try:
                yield made.secret
            finally:
                del self._clients[made.key.id]

    def find(self, key: str, name: str) -> ModuleClient:
        """Raises ActRefusedError: that is not the key of that module."""
        found = self._clients.get(key)
        if found is None or found.name != name:
            raise ActRefusedError("only the module itself, in its container, can ask for that")
        return found
