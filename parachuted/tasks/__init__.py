"""Tasks: work that waits for an agent, when it may begin, and who does it."""

from parachuted.tasks.budget import Budget, Limits
from parachuted.tasks.causes import Cause, Causes
from parachuted.tasks.queue import Queue, Task, Window
from parachuted.tasks.worker import Outcome, Worker

__all__ = ["Budget", "Cause", "Causes", "Limits", "Outcome", "Queue", "Task", "Window", "Worker"]
