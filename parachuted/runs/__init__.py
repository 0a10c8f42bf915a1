"""Runs: one agent's work, from its grant to its receipt."""

from parachuted.runs.agent_hooks import AgentHooks, HookAsker, NoHooks
from parachuted.runs.curator import Curator
from parachuted.runs.curator_run import CuratorParts
from parachuted.runs.run_recovery import RunRecovery

__all__ = ["AgentHooks", "Curator", "CuratorParts", "HookAsker", "NoHooks", "RunRecovery"]
