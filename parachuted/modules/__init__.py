"""The module API: every name that a module's author needs.

The daemon's parts are imported from their own files.
"""

from parachuted.access.agent_config import AgentConfig, SandboxConfig
from parachuted.access.narrowing import AgentNarrowing
from parachuted.access.notes import (
    Activity,
    AppendSection,
    ContextPart,
    ContextPreview,
    Hit,
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
from parachuted.modules.activity import ActivityAccess
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
)
from parachuted.modules.bodies import Body, Form, FormPart
from parachuted.modules.current_call import CurrentCall
from parachuted.modules.declare import command, event, interface, mcp_tool, route, schedule
from parachuted.modules.module import Module
from parachuted.modules.private import is_shortened, visible_to_agents
from parachuted.modules.results import BytesResponse, FileResponse, Finding, Response
from parachuted.modules.scheduling import Schedules, ScheduleStatus
from parachuted.modules.services import (
    ContextAccess,
    FolderAccess,
    Services,
    StateAccess,
    VaultAccess,
)
from parachuted.modules.streams import ServerEvent, Stream

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
