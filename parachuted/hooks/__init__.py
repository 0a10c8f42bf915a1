"""Programs that a person installs to observe events and object to acts, as in Claude Code."""

from parachuted.hooks.approvals import HookApprovals
from parachuted.hooks.decision import HookAnswer, HookDecision
from parachuted.hooks.hook import HookOptions, parse_event
from parachuted.hooks.hook_event import FULL_NAME, HookEvent, cause_data, document, event_data
from parachuted.hooks.hooks import Hooks
from parachuted.hooks.listeners import HookEventListener, WriteHooks
from parachuted.hooks.records import HookError

__all__ = [
    "FULL_NAME",
    "HookAnswer",
    "HookApprovals",
    "HookDecision",
    "HookError",
    "HookEvent",
    "HookEventListener",
    "HookOptions",
    "Hooks",
    "WriteHooks",
    "cause_data",
    "document",
    "event_data",
    "parse_event",
]
