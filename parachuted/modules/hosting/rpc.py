"""Two ends of a pipe that call each other, many calls at once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.codec import error_of, refusal_of
from parachuted.modules.hosting.framing import (
    AnswerFrame,
    AskFrame,
    CancelFrame,
    EndedFrame,
    Frame,
    LogFrame,
    RefusalFrame,
    WireError,
    pack,
)

MOST_ASKED = 32
MOST_SERVED = 64
_MOST_TEXT = 2_000


class RpcConnection:
    """One end.

    `serve` handles the other end's calls in tasks of `group`. All on the loop but `next_id`.
    `ended` is called with each call whose work the other end reports as done.
    """

    def __init__(
        self,
        send: Callable[[bytes], None],
        serve: Callable[[AskFrame], Awaitable[object]],
        group: asyncio.TaskGroup,
        *,
        say: Callable[[LogFrame], None] = lambda _said: None,
        ended: Callable[[int], None] = lambda _asked: None,
        most_served: int | None = MOST_SERVED,
    ) -> None:
        self._send = send
        self._do = serve
        self._say, self._hear_ended = say, ended
        self._group = group
        self._most_served = most_served
        self._ids = itertools.count(1)
        self._slots = asyncio.Semaphore(MOST_ASKED)
        self._newest = 0
        self._asked: dict[int, asyncio.Future[object]] = {}
        self._served: dict[int, asyncio.Task[None]] = {}
        self._ended: Exception | None = None

    @property
    def is_ended(self) -> bool:
        return self._ended is not None

    def next_id(self) -> int:
        self._newest = next(self._ids)
        return self._newest

    async def ask(
        self,
        verb: str,
        body: Mapping[str, object],
        *,
        of: int | None = None,
        urgent: bool = False,
        timeout_s: float | None = None,
        opened: Callable[[int], None] = lambda _asked: None,
    ) -> object:
        """Call and wait for the result.

        `urgent` ignores the limit on open calls. Raises the other end's error, why the connection
        ended, or TimeoutError. `opened` is called with the id before the call is sent; `of` is the
        call on whose behalf this one is made.
        """
        async with contextlib.nullcontext() if urgent else self._place(timeout_s):
            if self._ended is not None:
                raise self._ended
            asked = self.next_id()
            answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            frame = pack(AskFrame(id=asked, verb=verb, body=body, of=of))
            self._asked[asked] = answer
            opened(asked)
            try:
                self._send(frame)
                async with asyncio.timeout(timeout_s):
                    return await answer
            except (asyncio.CancelledError, TimeoutError):
                if self._ended is None:
                    self._send(pack(CancelFrame(id=asked)))
                raise
            finally:
                del self._asked[asked]

    @contextlib.asynccontextmanager
    async def _place(self, timeout_s: float | None) -> AsyncIterator[None]:
        """One of the places for asks that are open at once.

        Waiting for it is nothing that the other end is to blame for.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError as error:
            raise ModuleFailedError(
                f"it has {MOST_ASKED} things to do already; try again later"
            ) from error
        try:
            yield
        finally:
            self._slots.release()

    def take(self, frame: Frame) -> None:
        """Handle an incoming frame; raises WireError if the other end may not send it."""
        if isinstance(frame, AskFrame):
            self._begin(frame)
        elif isinstance(frame, LogFrame):
            self._say(frame)
        elif isinstance(frame, EndedFrame):
            self._must_be_asked(frame.id)
            self._hear_ended(frame.id)
        elif isinstance(frame, CancelFrame):
            served = self._served.get(frame.id)
            if served is not None:
                served.cancel()
        else:
            self._settle(frame)

    def end(self, error: Exception) -> None:
        self._ended = self._ended or error
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(self._ended)
        for served in self._served.values():
            served.cancel()

    def _settle(self, frame: AnswerFrame | RefusalFrame) -> None:
        self._must_be_asked(frame.id)
        answer = self._asked.get(frame.id)
        if answer is None or answer.done():
            return  # the caller does not wait any more
        if isinstance(frame, AnswerFrame):
            answer.set_result(frame.value)
        else:
            answer.set_exception(error_of(frame))

    def _must_be_asked(self, asked: int) -> None:
        if not 0 < asked <= self._newest:
            raise WireError(f"nothing with the number {asked} was ever asked")

    def _begin(self, ask: AskFrame) -> None:
        if ask.id in self._served:
            raise WireError(f"two asks have the number {ask.id}")
        if self._most_served is not None and len(self._served) >= self._most_served:
            raise WireError(f"more than {self._most_served} asks are open at once")
        served = self._group.create_task(self._serve(ask), name=f"{ask.verb[:80]} for a module")
        self._served[ask.id] = served
        served.add_done_callback(lambda _done: self._served.pop(ask.id, None))

    async def _serve(self, ask: AskFrame) -> None:
        try:
            frame = pack(AnswerFrame(id=ask.id, value=await self._do(ask)))
        except asyncio.CancelledError:
            frame = _refused(ask.id, ModuleFailedError("it was cancelled before it was done"))
        except Exception as error:  # noqa: BLE001  it goes over the pipe, to the caller
            frame = _refused(ask.id, error)
        if self._ended is None:
            self._send(frame)


def _refused(asked: int, error: Exception) -> bytes:
    try:
        return pack(refusal_of(asked, error))
    except WireError:  # the notes of a conflict may be longer than a frame
        return pack(
            refusal_of(
                asked, ModuleFailedError(f"{type(error).__name__}: {str(error)[:_MOST_TEXT]}")
            )
        )
