"""Tasks: the queue of work for agents, when a task may start, and the worker that runs it."""

from parachuted.tasks.budget import Budget, RunCountLimits, RunCounts
from parachuted.tasks.queue import Cause, Causes, Queue, QuietWindow, Task
from parachuted.tasks.worker import RunOutcome, Worker

__all__ = [
    "Budget",
    "Cause",
    "Causes",
    "Queue",
    "QuietWindow",
    "RunCountLimits",
    "RunCounts",
    "RunOutcome",
    "Task",
    "Worker",
]
