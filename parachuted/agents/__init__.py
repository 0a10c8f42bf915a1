"""Agent backends, the model gateway, sandboxes and permission requests."""

from parachuted.agents.backends import (
    SEE_STATUS,
    BackendName,
    ClaudeSettings,
    choose_backend,
    make_backend,
)
from parachuted.agents.calling import call_tool
from parachuted.agents.credentials import (
    Credential,
    CredentialSource,
    describe_credentials,
    find_credential,
)
from parachuted.agents.job import (
    Backend,
    ChangedNote,
    Job,
    NativeTools,
    RunLimits,
    RunResult,
    RunSandbox,
    Step,
    TextStep,
    Tool,
    ToolCallStep,
    ToolResult,
)
from parachuted.agents.offline import OfflineBackend

__all__ = [
    "SEE_STATUS",
    "Backend",
    "BackendName",
    "ChangedNote",
    "ClaudeSettings",
    "Credential",
    "CredentialSource",
    "Job",
    "NativeTools",
    "OfflineBackend",
    "RunLimits",
    "RunResult",
    "RunSandbox",
    "Step",
    "TextStep",
    "Tool",
    "ToolCallStep",
    "ToolResult",
    "call_tool",
    "choose_backend",
    "describe_credentials",
    "find_credential",
    "make_backend",
]
