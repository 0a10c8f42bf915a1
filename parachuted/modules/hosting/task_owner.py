"""Which asyncio tasks belong to a module, so that they end with it and fail as its own.

Whatever a module starts carries its name in the context, and so does whatever that starts in turn.
The loop asks `_Factory` for each task, the one place that all of them pass.
"""

from __future__ import annotations

import asyncio
import contextvars
import traceback
from asyncio.tasks import _enter_task, _leave_task  # documented under "Extending asyncio"
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from parachuted.access.authority import Authority, act_for
from parachuted.errors import ModuleFailedError

Result = TypeVar("Result")

_GRACE_S = 1.0
_AGAIN_S = 0.05
_MOST_TEXT = 20_000


class OverdueError(Exception):
    """The work took longer than it may."""


class TaskOwner:
    """All tasks of one module.

    `failed` is called with the text of each failure that would go unnoticed.
    """

    def __init__(self, name: str, failed: Callable[[str], None], *, most_tasks: int = 1000) -> None:
        self.name = name
        self._failed = failed
        self._most_tasks = most_tasks
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_ended = False

    @property
    def count(self) -> int:
        return len(self._tasks)

    async def run(
        self, work: Coroutine[Any, Any, Result], timeout_s: float, authority: Authority
    ) -> Result:
        """Run the work as the module's own, with that authority, within a time limit.

        Raises OverdueError, ModuleFailedError, or what the work raised. It does not wait for work
        that refuses cancellation; `end` cancels or reports that.
        """
        self._refuse_ended(work)
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        first: _FirstStep[Result] = _FirstStep(work)
        task: _Owned[Result] = _Owned(first, loop=loop, context=context)
        caller = asyncio.current_task(loop)
        self._tasks.add(task)
        if caller is not None:
            _leave_task(loop, caller)
        _enter_task(loop, task)
        try:
            context.run(first.begin, self, authority)
        except asyncio.CancelledError:  # it ends the work and not the caller
            task.cancel()
        finally:
            _leave_task(loop, task)
            if caller is not None:
                _enter_task(loop, caller)
            if first.is_done:
                self._tasks.discard(task)
        if first.is_done and not task.cancelling():  # most handlers wait for nothing
            return first.result
        self._keep(task, work)
        try:
            await asyncio.wait((task,), timeout=timeout_s)
            if not task.done():
                await _cancelled((task,), _GRACE_S)
                raise OverdueError
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            raise ModuleFailedError(
                f"the module {self.name} was stopped, or cancelled itself, before it had answered"
            )
        return task.result()

    def begin(
        self, work: Coroutine[Any, Any, Result], authority: Authority
    ) -> asyncio.Task[Result]:
        """Start a task of the module's, with that authority, from outside of its code.

        A failure that is never retrieved is reported, as that of any other.
        """
        self._refuse_ended(work)
        context = contextvars.copy_context()
        context.run(_enter, self, authority)
        return self._own(work, loop=asyncio.get_running_loop(), context=context)

    def take(
        self,
        work: Coroutine[Any, Any, Any],
        loop: asyncio.AbstractEventLoop,
        kwargs: dict[str, Any],
    ) -> asyncio.Task[Any]:
        """Make a task that the module's code asked the loop for."""
        if len(self._tasks) >= self._most_tasks:
            work.close()
            said = (
                f"the module {self.name} has {self._most_tasks} tasks at work, and may begin "
                "no more until some have ended"
            )
            self._failed(said)
            raise RuntimeError(said)
        task = self._own(work, loop=loop, **kwargs)
        if self._is_ended:
            task.cancel()
        return task

    def say(self, error: BaseException) -> None:
        """Tell of the failure of something that the module began in the background."""
        self._failed(traceback_of(error))

    async def end(self) -> list[str]:
        """Cancel all that runs and take no more; the names of what refuses to end."""
        self._is_ended = True
        mine = tuple(self._tasks - {asyncio.current_task()})
        return [task.get_name() for task in await _cancelled(mine, _GRACE_S)]

    def _own(self, work: Coroutine[Any, Any, Result], **kwargs: Any) -> _Owned[Result]:  # noqa: ANN401  as asyncio has it
        return self._keep(_Owned(_contained(work), **kwargs), work)

    def _refuse_ended(self, work: Coroutine[Any, Any, object]) -> None:
        """Raises ModuleFailedError, and closes the work, when the module has ended."""
        if self._is_ended:
            work.close()
            raise ModuleFailedError(
                f"the module {self.name} is not running; `parachute modules status` says why"
            )

    def _keep(self, task: _Owned[Result], work: Coroutine[Any, Any, Result]) -> _Owned[Result]:
        task.says = self.say
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(
            lambda _task: work.close()
        )  # it may have been cancelled before it began
        return task


class _Owned(asyncio.Task[Result]):
    """A module's task; `says` is called when it failed and its error was never retrieved."""

    says: Callable[[BaseException], None] | None = None


class _FirstStep(Coroutine[Any, Any, Result]):
    """Work whose first step runs before its task does, like an eager task of Python 3.12.

    It has a `result` once it `is_done` and has not raised.
    """

    result: Result

    def __init__(self, work: Coroutine[Any, Any, Result]) -> None:
        self._work = work
        self._waits_for: list[object] = []
        self.is_done = False

    def begin(self, owner: TaskOwner, authority: Authority) -> None:
        """Do the first step as that owner's, with that authority. Raises what the work raises."""
        _enter(owner, authority)
        try:
            self._waits_for.append(_step(self._work.send, None))
        except StopIteration as ended:
            self.is_done, self.result = True, ended.value
        except BaseException:
            self.is_done = True
            raise

    def send(self, value: Any) -> Any:  # noqa: ANN401  as coroutines have it
        """Go on: first with what the first step waits for."""
        if self.is_done:
            raise StopIteration(self.result)
        return self._waits_for.pop() if self._waits_for else _step(self._work.send, value)

    def throw(self, raised: Any, *more: Any) -> Any:  # noqa: ANN401  the same
        if self.is_done:
            raise raised
        self._waits_for.clear()
        return _step(self._work.throw, raised, *more)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Result]:
        return (yield from self._work.__await__())


_OWNER: contextvars.ContextVar[TaskOwner | None] = contextvars.ContextVar(
    "parachuted_module", default=None
)


def _enter(owner: TaskOwner, authority: Authority) -> None:
    """All that runs in this context is that module's from now on, and acts with that authority."""
    _OWNER.set(owner)
    act_for(authority)


class _Factory:
    """Makes every task of the loop: a module's own where its code asks, a plain one otherwise."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._before = loop.get_exception_handler()

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Any,  # noqa: ANN401  as asyncio has it
        **kwargs: Any,  # noqa: ANN401
    ) -> asyncio.Task[Any]:
        context = kwargs.get("context")
        owner = _OWNER.get() if context is None else context.get(_OWNER)
        return (
            asyncio.Task(work, loop=loop, **kwargs)
            if owner is None
            else owner.take(work, loop, kwargs)
        )

    def unseen(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The loop's exception handler: a module's unnoticed error is reported as that module's."""
        task, error = context.get("future"), context.get("exception")
        if isinstance(task, _Owned) and error is not None:
            if task.says is not None:
                task.says(error)
        elif self._before is not None:
            self._before(loop, context)
        else:
            loop.default_exception_handler(context)


def claim_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Install the task factory that tracks ownership. May be called again."""
    if not isinstance(loop.get_task_factory(), _Factory):
        factory = _Factory(loop)
        loop.set_task_factory(factory)
        loop.set_exception_handler(factory.unseen)


def traceback_of(error: BaseException) -> str:
    """The traceback as text, its end if it is very long: that is where the error is."""
    text = "".join(traceback.format_exception(error)).rstrip()
    return text if len(text) <= _MOST_TEXT else f"...\n{text[-_MOST_TEXT:]}"


async def _contained(work: Coroutine[Any, Any, Result]) -> Result:
    """Convert errors like SystemExit, which the loop would pass on, so that a module cannot end the
    daemon.
    """
    try:
        return await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise _as_failure(error) from error


def _step(function: Callable[..., object], *values: object) -> object:
    try:
        return function(*values)
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise _as_failure(error) from error


def _as_failure(error: BaseException) -> ModuleFailedError:
    return ModuleFailedError(
        f"the module raised {type(error).__name__}; only the daemon may end the process"
    )


async def _cancelled(
    tasks: tuple[asyncio.Task[Any], ...], grace_s: float
) -> list[asyncio.Task[Any]]:
    """Cancel, again and again for those that go on; which of them are alive after the time."""
    until = asyncio.get_running_loop().time() + grace_s
    living = [task for task in tasks if not task.done()]
    while living and asyncio.get_running_loop().time() < until:
        for task in living:
            task.cancel()
        await asyncio.wait(living, timeout=_AGAIN_S)
        living = [task for task in living if not task.done()]
    return living
