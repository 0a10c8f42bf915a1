"""Tasks: the queue of work for agents, when a task may start, and the worker that runs it."""

from parachuted.tasks.budget import Budget, RunCountLimits
from parachuted.tasks.causes import Cause, Causes
from parachuted.tasks.queue import Queue, QuietWindow, Task
from parachuted.tasks.worker import RunOutcome, Worker

__all__ = [
    "Budget",
    "Cause",
    "Causes",
    "Queue",
    "QuietWindow",
    "RunCountLimits",
    "RunOutcome",
    "Task",
    "Worker",
]
