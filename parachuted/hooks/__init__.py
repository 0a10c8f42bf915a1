"""Hooks: programs of a person's own that are told what happens, and may object to what is about to. They speak Claude Code's protocol."""

from parachuted.hooks.answers import read_answer
from parachuted.hooks.approvals import Approvals
from parachuted.hooks.decision import ALLOWED, Answer, Decision, Permission, combine
from parachuted.hooks.hook import Hook
from parachuted.hooks.hooks import Hooks
from parachuted.hooks.listed import HookError, Listed
from parachuted.hooks.listening import Listening
from parachuted.hooks.loading import HookSet, load_hooks
from parachuted.hooks.names import BLOCKING, CLAUDE_NAMES, claude_name, is_blocking, parse_event
from parachuted.hooks.occurrence import Occurrence, document
from parachuted.hooks.recorder import Record, Recorder
from parachuted.hooks.runner import Ran, Runner
from parachuted.hooks.told import told_cause, told_data
from parachuted.hooks.writes import Writes

__all__ = [
    "ALLOWED",
    "BLOCKING",
    "CLAUDE_NAMES",
    "Answer",
    "Approvals",
    "Decision",
    "Hook",
    "HookError",
    "HookSet",
    "Hooks",
    "Listed",
    "Listening",
    "Occurrence",
    "Permission",
    "Ran",
    "Record",
    "Recorder",
    "Runner",
    "Writes",
    "claude_name",
    "combine",
    "document",
    "is_blocking",
    "load_hooks",
    "parse_event",
    "read_answer",
    "told_cause",
    "told_data",
]
