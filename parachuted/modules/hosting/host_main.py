"""The program of a module host: `python -I -m parachuted.modules.hosting.host_main`, with the
daemon at stdin and stdout.

It isolates itself, loads the approved copy, and is then the same `InProcessHost` as in the daemon,
called over the pipe. The daemon trusts nothing that it says: isolation and the daemon's own checks
confine the module.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import gc
import io
import logging
import os
import sys
import threading
import traceback
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, cast

from pydantic import TypeAdapter

from parachuted.errors import ActRefusedError, ModuleFailedError
from parachuted.modules.hosting.answer_codec import RemoteBody, answer_of, item_answer
from parachuted.modules.hosting.codec import error_of
from parachuted.modules.hosting.framing import (
    AnswerFrame,
    AskFrame,
    EndedFrame,
    Frame,
    LogFrame,
    RefusalFrame,
    Unpacker,
    pack,
)
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.isolation_rules import apply_isolation
from parachuted.modules.hosting.remote_services import LogOverPipe, RemoteServices
from parachuted.modules.hosting.rpc import RpcConnection
from parachuted.modules.hosting.start_frame import StartFrame
from parachuted.modules.module import is_every_modules
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.results import BytesResponse, to_json
from parachuted.modules.services import Services

_CHUNK, _PIECE = 1 << 16, 1 << 18
_MOST_SAID = 20_000
_NOW_S = 30.0
_MANY = 500
_DECLARED: TypeAdapter[ModuleDeclaration] = TypeAdapter(ModuleDeclaration)


def main() -> None:
    """Serve one module until the daemon closes the pipe."""
    pipe = _Pipe(*_keep_pipes())
    try:
        asked = cast("AskFrame", next(pipe.frames()))
        begin = StartFrame.model_validate(asked.body)
        apply_isolation(begin.rules)
        approved = begin.approved()
    except Exception:  # noqa: BLE001  whatever it was, the daemon reads it in the log and sees the process end
        traceback.print_exc()
        os._exit(1)
    asyncio.run(_serve(pipe, asked.id, approved, begin))


class _Call:
    """An ask of the daemon that code here works for: all that it begins has it in its context, and
    it is gone with the last of that.
    """

    __slots__ = ("__weakref__", "asked")

    def __init__(self, asked: int) -> None:
        self.asked = asked


_CALL: contextvars.ContextVar[_Call | None] = contextvars.ContextVar(
    "parachuted_call", default=None
)


class _Pipe:
    """Both ends of the pipe, read by a thread so that code that cannot await can still have its
    answer.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._unpacker = Unpacker()
        self._writing = threading.Lock()
        self._now: dict[int, concurrent.futures.Future[AnswerFrame | RefusalFrame]] = {}
        self._open = 0
        self._ended: deque[int] = deque()
        self.connection: RpcConnection | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def working_on(self, asked: int) -> None:
        """Code run here, and everything that it starts, works for that call.

        The daemon is informed when the last of it has ended.
        """
        call = _Call(asked)
        weakref.finalize(call, self._end, asked).atexit = False
        _CALL.set(call)
        self._open += 1
        if self._open % _MANY == 0:
            gc.collect()  # some may be held by nothing but each other

    def _end(self, asked: int) -> None:
        """Called wherever the collector happens to run, so nothing is written here."""
        self._ended.append(asked)
        if self.loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
                self.loop.call_soon_threadsafe(self._tell_ended, context=contextvars.Context())

    def _tell_ended(self) -> None:
        while self._ended:
            self._open -= 1
            self.send(pack(EndedFrame(id=self._ended.popleft())))

    def frames(self) -> Iterator[Frame]:
        while data := os.read(self._incoming, _CHUNK):
            yield from self._unpacker.feed(data)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for frame in self.frames():
                waiting = (
                    self._now.pop(frame.id, None)
                    if isinstance(frame, AnswerFrame | RefusalFrame)
                    else None
                )
                if waiting is not None and isinstance(frame, AnswerFrame | RefusalFrame):
                    waiting.set_result(frame)
                elif self.connection is not None:
                    loop.call_soon_threadsafe(self.connection.take, frame)
        finally:
            os._exit(0)

    def send(self, data: bytes) -> None:
        with self._writing:
            view = memoryview(data)
            while view:
                view = view[os.write(self._outgoing, view) :]

    def say(self, level: int, text: str) -> None:
        self.send(pack(LogFrame(level=level, text=text[-_MOST_SAID:])))

    async def ask(self, verb: str, body: Mapping[str, object]) -> object:
        return await self._connection().ask(verb, body, of=_worked_on())

    def ask_now(self, verb: str, body: Mapping[str, object]) -> object:
        connection = self._connection()
        asked = connection.next_id()
        waiting: concurrent.futures.Future[AnswerFrame | RefusalFrame] = concurrent.futures.Future()
        frame = pack(AskFrame(id=asked, verb=verb, body=body, of=_worked_on()))
        self._now[asked] = waiting
        self.send(frame)
        try:
            answer = waiting.result(_NOW_S)
        except TimeoutError as error:
            raise ModuleFailedError(f"the daemon did not answer within {_NOW_S:g} s") from error
        finally:
            self._now.pop(asked, None)
        if isinstance(answer, RefusalFrame):
            raise error_of(answer)
        return answer.value

    def _connection(self) -> RpcConnection:
        if self.connection is None:
            raise ModuleFailedError("the module has not started yet")
        return self.connection


def _worked_on() -> int | None:
    call = _CALL.get()
    return call.asked if call is not None else None


class _Served:
    """What the daemon may ask of the module."""

    def __init__(self, approved: ApprovedModule, services: Services, pipe: _Pipe) -> None:
        self._running = InProcessHost(approved, services, on_problem=self._report_problem)
        self._pipe = pipe
        self._streams: dict[int, AsyncIterator[object]] = {}
        self._problem: str | None = None
        self._verbs: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[object]]] = {
            "start": self._start,
            "stop": self._stop,
            "ping": self._ping,
            "call": self._call,
            "tell": self._tell,
            "stream": self._stream,
            "next": self._next,
            "close": self._close,
            "interface": self._interface,
        }

    async def serve(self, ask: AskFrame) -> object:
        self._pipe.working_on(ask.id)
        try:
            return await self._verbs[ask.verb](ask.body)
        finally:
            self._report_problem()

    def _report_problem(self) -> None:
        """At level 0: not for the log, but what is wrong with the module."""
        if self._running.problem != self._problem:
            self._problem = self._running.problem
            self._pipe.say(0, self._problem or "")

    async def _start(self, _body: Mapping[str, Any]) -> object:
        await self._running.start()
        return _DECLARED.dump_python(self._running.declared, mode="json")

    async def _stop(self, _body: Mapping[str, Any]) -> object:
        await self._running.stop()
        return None

    async def _ping(self, _body: Mapping[str, Any]) -> object:
        return None

    async def _call(self, body: Mapping[str, Any]) -> object:
        called = self._running.call(
            body["handler"],
            body["arguments"],
            path=body["path"],
            query=body["query"],
            tolerant=body.get("tolerant", False),
            source=self._source(body),
            timeout_s=body["timeout_s"],
        )
        result = await called
        if isinstance(result, BytesResponse):
            self._streams[body["stream"]] = _pieces(result.data)
        return answer_of(result)

    def _source(self, body: Mapping[str, Any]) -> RemoteBody | None:
        source = body.get("source")
        return None if source is None else RemoteBody(self._pipe.ask, source)

    async def _tell(self, body: Mapping[str, Any]) -> object:
        await self._running.tell(body["handler"], body["data"], timeout_s=body["timeout_s"])
        return None

    async def _stream(self, body: Mapping[str, Any]) -> object:
        number = body["stream"]
        self._streams[number] = self._running.stream(
            body["handler"],
            body["arguments"],
            path=body["path"],
            query=body["query"],
            tolerant=body.get("tolerant", False),
            source=self._source(body),
            after=body.get("after"),
        )
        return None

    async def _next(self, body: Mapping[str, Any]) -> object:
        number = body["stream"]
        try:
            item = await anext(self._streams[number])
        except StopAsyncIteration:
            return {}
        return item if isinstance(item, bytes) else item_answer(item)

    async def _close(self, body: Mapping[str, Any]) -> object:
        stream = self._streams.pop(body["stream"], None)
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
        return None

    async def _interface(self, body: Mapping[str, Any]) -> object:
        name, method = body["interface"], body["method"]
        provided = self._running.interface(name)
        if provided is None or method.startswith("_") or is_every_modules(method):
            raise ActRefusedError(f"{name} has no method {method}")
        try:
            function = getattr(provided, method)
        except AttributeError as error:
            raise ActRefusedError(str(error)) from error
        return to_json(await function(*body["args"], **body["kwargs"]))


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]


async def _serve(pipe: _Pipe, started: int, approved: ApprovedModule, begin: StartFrame) -> None:
    log = logging.getLogger(f"parachuted.modules.{approved.name}")
    log.setLevel(logging.DEBUG)
    log.propagate = False
    over_pipe = LogOverPipe(pipe.say)
    log.addHandler(over_pipe)
    logging.getLogger("parachuted").addHandler(
        over_pipe
    )  # what is said of the module, with its traceback
    services = RemoteServices(
        approved.name,
        approved.config,
        log,
        pipe,
        data_folder=begin.data_folder,
        has_model=begin.has_model,
    )
    served = _Served(approved, services, pipe)
    async with asyncio.TaskGroup() as group:
        pipe.loop = loop = asyncio.get_running_loop()
        pipe.connection = RpcConnection(pipe.send, served.serve, group, most_served=None)
        pipe.connection.take(AskFrame(id=started, verb="start", body={}))
        threading.Thread(target=pipe.listen, args=(loop,), name="the pipe", daemon=True).start()
        await asyncio.Event().wait()  # for ever: the end of the pipe is the end of the process


def _keep_pipes() -> tuple[int, int]:
    """Take the pipes away from what the module may print or read: its output goes to stderr, which
    is logged.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    return incoming, outgoing


if __name__ == "__main__":
    main()
