"""Which asyncio tasks belong to a module, so that they end with it and fail as its own.

Whatever a module starts carries its owner in the context, and so does whatever that starts in turn.
The loop asks the task factory for each task, the one place that all of them pass.
"""

from __future__ import annotations

import asyncio
import contextvars
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from parachuted.access.authority import Authority, act_for
from parachuted.errors import ModuleFailedError

Result = TypeVar("Result")

_GRACE_S = 1.0
_MOST_TEXT = 20_000


class OverdueError(Exception):
    """The work took longer than it may."""


class TaskOwner:
    """All tasks of one module.

    `failed` is called with the traceback of each failure that would go unnoticed.
    """

    def __init__(self, name: str, failed: Callable[[str], None]) -> None:
        self.name, self._failed = name, failed
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_ended = False

    async def run(
        self, work: Coroutine[Any, Any, Result], timeout_s: float, authority: Authority
    ) -> Result:
        """Run the work as the module's own, with that authority.

        Raises OverdueError, ModuleFailedError, or what the work raised. It does not wait for work
        that refuses to be cancelled.
        """
        task = self.begin(work, authority)
        try:
            await asyncio.wait((task,), timeout=timeout_s)
            if not task.done():
                task.cancel()
                await asyncio.wait((task,), timeout=_GRACE_S)
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
        """Start a task of the module's, with that authority, from outside of its code."""
        context = contextvars.copy_context()
        context.run(_OWNER.set, self)
        context.run(act_for, authority)
        return self.take(work, asyncio.get_running_loop(), {"context": context})

    def take(
        self,
        work: Coroutine[Any, Any, Any],
        loop: asyncio.AbstractEventLoop,
        kwargs: dict[str, Any],
    ) -> asyncio.Task[Any]:
        """Make a task of the module's; one that is made after its end is cancelled at once."""
        task = _OwnedTask(_contained(work), loop=loop, **kwargs)
        task.failed = self._failed
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _task: work.close())  # it may be cancelled before it begins
        if self._is_ended:
            task.cancel()
        return task

    async def end(self) -> list[str]:
        """Cancel all that runs, now and later; the names of what refuses to end."""
        self._is_ended = True
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_GRACE_S)
        return [task.get_name() for task in tasks if not task.done()]


class _OwnedTask(asyncio.Task[Result]):
    """A module's task; `failed` takes the traceback of an error that was never retrieved."""

    failed: Callable[[str], None] | None = None


_OWNER: contextvars.ContextVar[TaskOwner | None] = contextvars.ContextVar(
    "parachuted_module", default=None
)


def claim_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have the loop make each task for the module whose code asks, and report unnoticed errors as
    that module's. May be called again.
    """
    if loop.get_task_factory() is not _make_task:
        before = loop.get_exception_handler() or asyncio.AbstractEventLoop.default_exception_handler

        def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            task, error = context.get("future"), context.get("exception")
            if isinstance(task, _OwnedTask) and task.failed is not None and error is not None:
                task.failed(traceback_of(error))
            else:
                before(loop, context)

        loop.set_task_factory(_make_task)
        loop.set_exception_handler(report)


def _make_task(
    loop: asyncio.AbstractEventLoop,
    work: Any,  # noqa: ANN401  as asyncio has it
    **kwargs: Any,  # noqa: ANN401
) -> asyncio.Task[Any]:
    context = kwargs.get("context")
    owner = _OWNER.get() if context is None else context.get(_OWNER)
    if owner is None:
        return asyncio.Task(work, loop=loop, **kwargs)
    return owner.take(work, loop, kwargs)


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
        raise ModuleFailedError(
            f"the module raised {type(error).__name__}; only the daemon may end the process"
        ) from error
