"""Runs: one agent's work, from its grant to its receipt."""

from parachuted.runs.agent_hooks import AgentHooks, HookAsker, NoHooks, RunHooks
from parachuted.runs.curator import Curator, CuratorBriefing
from parachuted.runs.curator_run import CuratorSessions
from parachuted.runs.run import RunServices
from parachuted.runs.task_reviews import RunRecovery, TaskReviews

__all__ = [
    "AgentHooks",
    "Curator",
    "CuratorBriefing",
    "CuratorSessions",
    "HookAsker",
    "NoHooks",
    "RunHooks",
    "RunRecovery",
    "RunServices",
    "TaskReviews",
]
