"""Catalogue: every event there is, by the one name it has in Python, settings, the event stream and the docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class EventKind:
    """A kind of event: its name, what it tells, and the fields of its `data`.

    `blocks`: it is told before the act, to hooks alone, and any of them may object; it is no fact, so the bus does not carry it.
    `claude`: the name that Claude Code's hooks have for it.
    """

    name: str
    tells: str
    fields: tuple[str, ...]
    blocks: bool = False
    claude: str = ""


_CHANGE = ("path", "by", "run", "causes", "digest")
_KINDS = (
    EventKind(name="file.created", tells="A file is new in the vault.", fields=_CHANGE),
    EventKind(name="file.modified", tells="A file's content is another.", fields=_CHANGE),
    EventKind(name="file.moved", tells="A file has another path, perhaps with another content too.", fields=(*_CHANGE, "from")),
    EventKind(name="file.deleted", tells="A file is gone.", fields=_CHANGE),
    EventKind(
        name="watch.declared",
        tells="A note says what it watches, anew or otherwise than before.",
        fields=("watcher", "patterns", "problems"),
    ),
    EventKind(name="watch.removed", tells="A note watches nothing any more.", fields=("watcher",)),
    EventKind(name="task.queued", tells="A watcher has something to review.", fields=("task", "watcher", "paths", "causes", "due")),
    EventKind(name="task.started", tells="An agent has begun on a task.", fields=("task", "watcher", "run", "backend")),
    EventKind(name="task.finished", tells="A task is done with.", fields=("task", "watcher", "run", "outcome")),
    EventKind(name="run.finished", tells="An agent's run has ended.", fields=("run", "watcher", "outcome", "reason", "paths", "cost_usd")),
    EventKind(
        name="run.undone", tells="A run, and what followed from it, was taken back.", fields=("run", "runs", "paths", "kept", "undo")
    ),
    EventKind(
        name="permission.requested",
        tells="An agent asks a person for more than it was given.",
        fields=("id", "run", "session", "agent", "kind", "what", "why", "until"),
    ),
    EventKind(
        name="permission.answered",
        tells="A question of an agent was answered: once, session or never; or it is over: unanswered or ended.",
        fields=("id", "run", "session", "agent", "kind", "what", "answer"),
    ),
    EventKind(name="vault.problem", tells="Something about the vault needs a person, or no longer does.", fields=("subject", "problem")),
    EventKind(name="budget.exceeded", tells="A task waits, since a budget is used up.", fields=("task", "watcher", "budget", "limit")),
    EventKind(
        name="session.start",
        tells="A session of chat or of the journal begins.",
        fields=("session_id", "module", "working_directory"),
        claude="SessionStart",
    ),
    EventKind(
        name="session.end",
        tells="A session was closed, or nothing came for so long that it is over.",
        fields=("session_id", "message_count", "duration"),
        claude="SessionEnd",
    ),
    EventKind(
        name="daily.entry.created",
        tells="An entry of the journal was saved for the first time.",
        fields=("entry_id", "entry_path", "content", "audio_path"),
    ),
    EventKind(
        name="daily.reflection.completed", tells="A reflection on a day was written.", fields=("date", "agent", "output_path", "status")
    ),
    EventKind(
        name="chat.session.created",
        tells="There is a new conversation.",
        fields=("session_id", "title", "module", "source", "working_directory"),
    ),
    EventKind(
        name="chat.session.message",
        tells="A message of a conversation was stored.",
        fields=("session_id", "message_id", "role", "source", "message_count"),
    ),
    EventKind(
        name="context.limit.approaching",
        tells="A session's context is nearly full, and will be compacted.",
        fields=("session_id", "token_count", "threshold"),
    ),
    EventKind(
        name="brain.mention.detected",
        tells="A text mentions something that Brain knows.",
        fields=("source_id", "para_id", "confidence"),
    ),
    EventKind(
        name="tool.after",
        tells="An agent's tool call has ended.",
        fields=("tool_name", "tool_input", "tool_use_id", "tool_response", "duration_ms"),
        claude="PostToolUse",
    ),
    EventKind(name="module.enabled", tells="A module is running.", fields=("name", "version", "hash")),
    EventKind(name="module.disabled", tells="A module was stopped.", fields=("name", "version")),
    EventKind(name="module.failed", tells="A module does not run, or no longer does.", fields=("name", "version", "error")),
    EventKind(
        name="module.changed", tells="A module's folder is not what was approved; the approved version goes on.", fields=("name", "hash")
    ),
    EventKind(
        name="suggestion.created",
        tells="An agent or a module suggests a change, which waits for somebody to decide.",
        fields=("id", "action", "path", "target_module", "source_agent", "run", "causes"),
    ),
    EventKind(
        name="suggestion.resolved",
        tells="A suggestion was approved, changed, rejected, or can no longer be done.",
        fields=("id", "action", "path", "target_module", "source_agent", "run", "causes", "status", "resolved_by", "applied_run"),
    ),
    EventKind(name="hook.failed", tells="A hook did not do what it was asked.", fields=("hook", "event", "error")),
    EventKind(
        name="write.before",
        tells="Something is about to be written in the vault.",
        fields=("path", "from", "actor", "run", "causes", "operation", "base", "digest", "sections", "frontmatter"),
        blocks=True,
    ),
    EventKind(
        name="bubble.before",
        tells="A watcher is about to be woken.",
        fields=("watcher", "run", "paths", "causes", "most_cost_usd"),
        blocks=True,
    ),
    EventKind(
        name="tool.before",
        tells="An agent is about to call a tool.",
        fields=("tool_name", "tool_input", "tool_use_id"),
        blocks=True,
        claude="PreToolUse",
    ),
    EventKind(name="module.load.before", tells="A module's code is about to be loaded.", fields=("name", "version", "hash"), blocks=True),
    EventKind(name="prompt.before", tells="An agent is about to be asked.", fields=("prompt",), blocks=True, claude="UserPromptSubmit"),
    EventKind(
        name="stop.before",
        tells="An agent is about to end its work.",
        fields=("stop_hook_active", "last_assistant_message"),
        blocks=True,
        claude="Stop",
    ),
    EventKind(
        name="compact.before",
        tells="A session's context is about to be compacted.",
        fields=("trigger", "custom_instructions"),
        blocks=True,
        claude="PreCompact",
    ),
)

CATALOG: Mapping[str, EventKind] = MappingProxyType({kind.name: kind for kind in _KINDS})
FACTS: Mapping[str, EventKind] = MappingProxyType({kind.name: kind for kind in _KINDS if not kind.blocks})
"""Those that have happened when they are told: what the bus and the event stream carry."""

_LENT = frozenset({"daily", "chat", "brain"})
CORE = frozenset(name.partition(".")[0] for name in CATALOG) - _LENT
"""First words that are the core's alone: no module's event begins with one. For Daily, Chat and Brain there are events to tell."""
