"""Agents: who does the work of a task, with which model, within which limits."""

from parachuted.agents.backends import SEE_STATUS, BackendName, ClaudeSettings, choose_backend, make_backend
from parachuted.agents.calling import call_tool
from parachuted.agents.credentials import Credential, Finding, describe_credentials, find_credential
from parachuted.agents.job import Backend, Box, Called, ChangedNote, Finished, Job, Limits, Native, Said, Step, Tool, ToolResult
from parachuted.agents.offline import OfflineBackend

__all__ = [
    "SEE_STATUS",
    "Backend",
    "BackendName",
    "Box",
    "Called",
    "ChangedNote",
    "ClaudeSettings",
    "Credential",
    "Finding",
    "Finished",
    "Job",
    "Limits",
    "Native",
    "OfflineBackend",
    "Said",
    "Step",
    "Tool",
    "ToolResult",
    "call_tool",
    "choose_backend",
    "describe_credentials",
    "find_credential",
    "make_backend",
]
