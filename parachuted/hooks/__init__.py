"""Programs that a person installs to observe events and to object to actions, in Claude
Code's protocol.
"""

from parachuted.hooks.approvals import HookApprovals, ScriptChangedError
from parachuted.hooks.decision import (
    ALLOWED,
    HookAnswer,
    HookDecision,
    Permission,
    combine,
    read_answer,
)
from parachuted.hooks.event_listener import HookEventListener
from parachuted.hooks.hook import (
    BLOCKING,
    CLAUDE_NAMES,
    Hook,
    HookError,
    HookStatus,
    claude_name,
    is_blocking,
    parse_event,
)
from parachuted.hooks.hook_event import HookEvent, cause_data, document, event_data
from parachuted.hooks.hooks import Hooks
from parachuted.hooks.loading import HookSet, load_hooks
from parachuted.hooks.participant import HookParticipant
from parachuted.hooks.run_recorder import HookRunRecord, HookRunRecorder
from parachuted.hooks.runner import HookRunner, ProcessResult
from parachuted.hooks.write_hooks import WriteHooks

__all__ = [
    "ALLOWED",
    "BLOCKING",
    "CLAUDE_NAMES",
    "Hook",
    "HookAnswer",
    "HookApprovals",
    "HookDecision",
    "HookError",
    "HookEvent",
    "HookEventListener",
    "HookParticipant",
    "HookRunRecord",
    "HookRunRecorder",
    "HookRunner",
    "HookSet",
    "HookStatus",
    "Hooks",
    "Permission",
    "ProcessResult",
    "ScriptChangedError",
    "WriteHooks",
    "cause_data",
    "claude_name",
    "combine",
    "document",
    "event_data",
    "is_blocking",
    "load_hooks",
    "parse_event",
    "read_answer",
]
