"""The module API: every name that a module's author needs.

The daemon's parts are imported from their own files.
"""

from parachuted.access.activity import Activity
from parachuted.access.agent_config import AgentConfig, SandboxConfig
from parachuted.access.context_preview import ContextPart, ContextPreview
from parachuted.access.hit import Hit
from parachuted.access.narrowing import AgentNarrowing
from parachuted.access.notes import (
    AppendSection,
    LinkRow,
    Note,
    NoteChange,
    NoteEdit,
    NoteLink,
    NotePage,
    NoteRow,
    NoteSection,
    NoteStream,
    RemoveKey,
    ReplaceSpan,
    SetKey,
    SetSection,
    Upload,
)
from parachuted.modules.agent_runs import (
    AgentPermissionRequest,
    AgentQuestion,
    AgentResult,
    AgentRun,
    AgentSession,
    AgentStep,
    AgentText,
    AgentTextDelta,
    AgentThinkingDelta,
    AgentToolCall,
    AgentToolUse,
    AgentUsage,
    is_shortened,
    visible_to_agents,
)
from parachuted.modules.declare import command, event, interface, mcp_tool, route, schedule
from parachuted.modules.module import Module
from parachuted.modules.results import BytesResponse, FileResponse, Finding, Response
from parachuted.modules.scheduling import Schedules, ScheduleStatus
from parachuted.modules.services import (
    ActivityAccess,
    ContextAccess,
    CurrentCall,
    FolderAccess,
    Services,
    StateAccess,
    VaultAccess,
)
from parachuted.modules.streams import Body, Form, FormPart, ServerEvent, Stream

__all__ = [
    "Activity",
    "ActivityAccess",
    "AgentConfig",
    "AgentNarrowing",
    "AgentPermissionRequest",
    "AgentQuestion",
    "AgentResult",
    "AgentRun",
    "AgentSession",
    "AgentStep",
    "AgentText",
    "AgentTextDelta",
    "AgentThinkingDelta",
    "AgentToolCall",
    "AgentToolUse",
    "AgentUsage",
    "AppendSection",
    "Body",
    "BytesResponse",
    "ContextAccess",
    "ContextPart",
    "ContextPreview",
    "CurrentCall",
    "FileResponse",
    "Finding",
    "FolderAccess",
    "Form",
    "FormPart",
    "Hit",
    "LinkRow",
    "Module",
    "Note",
    "NoteChange",
    "NoteEdit",
    "NoteLink",
    "NotePage",
    "NoteRow",
    "NoteSection",
    "NoteStream",
    "RemoveKey",
    "ReplaceSpan",
    "Response",
    "SandboxConfig",
    "ScheduleStatus",
    "Schedules",
    "ServerEvent",
    "Services",
    "SetKey",
    "SetSection",
    "StateAccess",
    "Stream",
    "Upload",
    "VaultAccess",
    "command",
    "event",
    "interface",
    "is_shortened",
    "mcp_tool",
    "route",
    "schedule",
    "visible_to_agents",
]
