"""Talk: two ends of a pipe that ask and answer each other, many things at once.

What the other end asks on behalf of one of our own asks is done in that ask's context: a write of a module is then part of the cause that
called it, also when its code is in another process.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from parachuted.errors import ModuleFailedError
from parachuted.modules.crossing import error_of, refusal_of
from parachuted.modules.wire import Answer, Ask, Cancel, Frame, Refusal, Said, WireError, pack

MOST_ASKED = 32
MOST_SERVED = 64
_MOST_TEXT = 2_000
_SERVING: contextvars.ContextVar[tuple[Talk, int] | None] = contextvars.ContextVar("parachuted_talk", default=None)


class Talk:
    """One end. `serve` does what the other end asks; its tasks are `group`'s. All on the loop but `next_id` and `serving`."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        serve: Callable[[Ask], Awaitable[object]],
        group: asyncio.TaskGroup,
        *,
        say: Callable[[Said], None] = lambda _said: None,
        most_served: int | None = MOST_SERVED,
    ) -> None:
        self._send = send
        self._do = serve
        self._say = say
        self._group = group
        self._most_served = most_served
        self._ids = itertools.count(1)
        self._slots = asyncio.Semaphore(MOST_ASKED)
        self._asked: dict[int, tuple[asyncio.Future[object], contextvars.Context]] = {}
        self._held: dict[int, contextvars.Context] = {}
        self._served: dict[int, asyncio.Task[None]] = {}
        self._ended: Exception | None = None

    @property
    def is_ended(self) -> bool:
        """Whether the other end is gone."""
        return self._ended is not None

    def next_id(self) -> int:
        """A number for an ask."""
        return next(self._ids)

    def serving(self) -> int | None:
        """The other end's ask that the running code serves, if any."""
        serving = _SERVING.get()
        return serving[1] if serving is not None and serving[0] is self else None

    async def ask(
        self, verb: str, body: Mapping[str, object], *, urgent: bool = False, timeout_s: float | None = None, held: list[int] | None = None
    ) -> object:  # fmt: skip
        """Ask and wait. `urgent` needs no free place. Raises what the other end raised, why the talk ended, or TimeoutError.

        Where the other end goes on with it after its answer, `held` is given the ask's number, and its context lasts until `let_go`.
        """
        async with contextlib.nullcontext() if urgent else self._place(timeout_s):
            if self._ended is not None:
                raise self._ended
            asked = self.next_id()
            answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            frame = pack(Ask(id=asked, verb=verb, body=body, of=self.serving()))
            self._asked[asked] = (answer, contextvars.copy_context())
            if held is not None:
                held.append(asked)
                self._held[asked] = contextvars.copy_context()
            try:
                self._send(frame)
                async with asyncio.timeout(timeout_s):
                    return await answer
            except (asyncio.CancelledError, TimeoutError):
                if self._ended is None:
                    self._send(pack(Cancel(id=asked)))
                raise
            finally:
                del self._asked[asked]

    def let_go(self, held: list[int]) -> None:
        """Nothing is done on behalf of those asks any more."""
        for asked in held:
            self._held.pop(asked, None)

    @contextlib.asynccontextmanager
    async def _place(self, timeout_s: float | None) -> AsyncIterator[None]:
        """One of the places for asks that are open at once. Waiting for it is nothing that the other end is to blame for."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError as error:
            raise ModuleFailedError(f"it has {MOST_ASKED} things to do already; try again later") from error
        try:
            yield
        finally:
            self._slots.release()

    def take(self, frame: Frame) -> None:
        """Act on a frame that came; raises WireError if the other end may not say that."""
        if isinstance(frame, Ask):
            self._begin(frame)
        elif isinstance(frame, Said):
            self._say(frame)
        elif isinstance(frame, Cancel):
            served = self._served.get(frame.id)
            if served is not None:
                served.cancel()
        else:
            self._settle(frame)

    def end(self, error: Exception) -> None:
        """The other end is gone: whoever waits is told, and nothing is done for it any more."""
        self._ended = self._ended or error
        for answer, _context in self._asked.values():
            if not answer.done():
                answer.set_exception(self._ended)
        for served in self._served.values():
            served.cancel()

    def _settle(self, frame: Answer | Refusal) -> None:
        answer, _context = self._asked.get(frame.id, (None, None))
        if answer is None or answer.done():
            return  # nobody waits any more
        if isinstance(frame, Answer):
            answer.set_result(frame.value)
        else:
            answer.set_exception(error_of(frame))

    def _begin(self, ask: Ask) -> None:
        if ask.id in self._served:
            raise WireError(f"two asks have the number {ask.id}")
        if self._most_served is not None and len(self._served) >= self._most_served:
            raise WireError(f"more than {self._most_served} asks are open at once")
        _answer, context = self._asked.get(ask.of or 0, (None, self._held.get(ask.of or 0)))
        context = contextvars.copy_context() if context is None else context.copy()
        context.run(_SERVING.set, (self, ask.id))
        served = self._group.create_task(self._serve(ask), name=f"{ask.verb} for a module", context=context)
        self._served[ask.id] = served
        served.add_done_callback(lambda _done: self._served.pop(ask.id, None))

    async def _serve(self, ask: Ask) -> None:
        try:
            frame = pack(Answer(id=ask.id, value=await self._do(ask)))
        except asyncio.CancelledError:
            frame = _refused(ask.id, ModuleFailedError("it was cancelled before it was done"))
        except Exception as error:  # noqa: BLE001  it goes over the pipe, to whoever asked
            frame = _refused(ask.id, error)
        if self._ended is None:
            self._send(frame)


def _refused(asked: int, error: Exception) -> bytes:
    try:
        return pack(refusal_of(asked, error))
    except WireError:  # the notes of a conflict may be longer than a frame
        return pack(refusal_of(asked, ModuleFailedError(f"{type(error).__name__}: {str(error)[:_MOST_TEXT]}")))
