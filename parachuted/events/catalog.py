"""Catalogue: every event, under its one name in Python, settings, the event stream and hooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from parachuted.events.fields import FieldKind, schema_of

_LENT = frozenset({"daily", "chat", "brain"})
_SCOPES = {
    "file": "vault",
    **dict.fromkeys(
        ("watch", "task", "run", "budget", "tool", "permission", "suggestion"), "curator"
    ),
    **dict.fromkeys(("session", "context"), "chat"),
    **{name: name for name in _LENT},
}
_OTHER_SCOPE = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventKind:
    """A kind of event: its name and the kind of each field of its `data`.

    `blocks`: only hooks receive it, before the act, and may object. `claude`: its name in Claude
    Code's hooks. `publisher`: the module that publishes it; None: the core.
    """

    name: str
    tells: str
    fields: Mapping[str, FieldKind]
    blocks: bool = False
    claude: str = ""
    publisher: str | None = None

    def __post_init__(self) -> None:
        untyped = [name for name, kind in self.fields.items() if not isinstance(kind, FieldKind)]
        if untyped:
            raise ValueError(
                f"{self.name}: the field {untyped[0][:80]} needs one of the kinds "
                f"{', '.join(FieldKind)}"
            )

    def schema(self) -> dict[str, object]:
        """The JSON schema of its `data`. A field that does not apply is null, or is left out."""
        return {
            "type": "object",
            "properties": {name: schema_of(kind) for name, kind in self.fields.items()},
            "additionalProperties": False,
        }

    @property
    def scope(self) -> str:
        if self.publisher is not None:
            return self.publisher
        return _SCOPES.get(self.name.partition(".")[0], _OTHER_SCOPE)


def _event(name: str, tells: str, fields: str, **more: Any) -> EventKind:  # noqa: ANN401  EventKind's
    """`fields` are names, each with its kind."""
    named = (field.split(":") for field in fields.split())
    kinds = {field: FieldKind(kind) for field, kind in named}
    return EventKind(name=name, tells=tells, fields=kinds, **more)


_CHANGE = "path:path by:id run:id key:id causes:ids digest:id"
_KINDS = (
    _event("file.created", "A file is new in the vault.", _CHANGE),
    _event("file.modified", "A file's content changed.", _CHANGE),
    _event(
        "file.moved",
        "A file was moved or renamed; its content may have changed too.",
        f"{_CHANGE} from:path",
    ),
    _event("file.deleted", "A file was deleted.", _CHANGE),
    _event(
        "watch.declared",
        "A note's `watch:` was added or changed.",
        "watcher:path patterns:text problems:text unmatched:text",
    ),
    _event("watch.removed", "A note no longer watches anything.", "watcher:path"),
    _event(
        "task.queued",
        "A watcher has something to review.",
        "task:id watcher:path paths:paths causes:ids due:id",
    ),
    _event("task.started", "An agent started a task.", "task:id watcher:path run:id backend:id"),
    _event("task.finished", "A task is finished.", "task:id watcher:path run:id outcome:id"),
    _event(
        "run.finished",
        "An agent's run has ended.",
        "run:id watcher:path outcome:id reason:text paths:paths cost_usd:number",
    ),
    _event(
        "run.undone",
        "A run, and what followed from it, was taken back.",
        "run:id runs:text paths:paths kept:texts undo:id",
    ),
    _event(
        "permission.requested",
        "An agent asks a person for a permission.",
        "id:id run:id session:id agent:id kind:id what:text why:text until:id",
    ),
    _event(
        "permission.answered",
        "An agent's request was answered (once, session or deny), or is not open any more "
        "(unanswered or ended).",
        "id:id run:id session:id agent:id kind:id what:text answer:id",
    ),
    _event(
        "vault.problem",
        "The vault has a problem that a person should look at, or no longer has it.",
        "subject:text problem:text",
    ),
    _event(
        "budget.exceeded",
        "A task waits because a budget is used up.",
        "task:id watcher:path budget:id limit:number",
    ),
    _event(
        "session.start",
        "A session of Chat or Daily starts.",
        "session_id:id module:id working_directory:path",
        claude="SessionStart",
    ),
    _event(
        "session.end",
        "A session was closed, or ended because no message came for a long time.",
        "session_id:id message_count:number duration:number",
    ),
    _event(
        "session.notification",
        "The agent of a conversation waits for the person: it asks something, or for leave.",
        "session_id:id notification_type:id title:text message:text",
    ),
    _event(
        "daily.entry.created",
        "An entry of the journal was saved for the first time.",
        "entry_id:id entry_path:path content:text audio_path:path causes:ids",
        publisher="daily",
    ),
    _event(
        "daily.reflection.completed",
        "A reflection on a day was written.",
        "date:id agent:id output_path:path status:id causes:ids",
        publisher="daily",
    ),
    _event(
        "chat.session.created",
        "A conversation was created.",
        "session_id:id title:text module:id source:id working_directory:path causes:ids",
        publisher="chat",
    ),
    _event(
        "chat.session.message",
        "A message of a conversation was stored.",
        "session_id:id message_id:id role:id source:id message_count:number causes:ids",
        publisher="chat",
    ),
    _event(
        "context.limit.approaching",
        "A session's context is nearly full, and will be compacted.",
        "session_id:id token_count:number threshold:number",
    ),
    _event(
        "brain.mention.detected",
        "A text mentions something that Brain knows.",
        "source_id:id para_id:id confidence:number causes:ids",
        publisher="brain",
    ),
    _event(
        "tool.after",
        "An agent's tool call succeeded.",
        "tool_name:id tool_input:text tool_use_id:id tool_response:text duration_ms:number",
        claude="PostToolUse",
    ),
    _event("module.enabled", "A module is running.", "name:id version:id hash:id"),
    _event("module.disabled", "A module was stopped.", "name:id version:id"),
    _event(
        "module.failed",
        "A module failed to start, or failed while it ran.",
        "name:id version:id error:text",
    ),
    _event(
        "module.changed",
        "A module's folder differs from what was approved; the approved version keeps running.",
        "name:id hash:id",
    ),
    _event(
        "suggestion.created",
        "An agent or a module suggests a change, which waits for a person's decision.",
        "id:id action:id path:path target_module:id source_agent:id run:id causes:ids",
    ),
    _event(
        "suggestion.resolved",
        "A suggestion was approved, changed, rejected, or can no longer be applied.",
        "id:id action:id path:path target_module:id source_agent:id run:id causes:ids "
        "status:id resolved_by:id applied_run:id",
    ),
    _event("hook.failed", "A hook failed.", "hook:text event:id error:text"),
    _event(
        "write.before",
        "Something is about to be written in the vault.",
        "path:path from:path actor:id run:id causes:ids operation:id base:id digest:id "
        "sections:text frontmatter:text",
        blocks=True,
    ),
    _event(
        "tool.before",
        "An agent is about to call a tool.",
        "tool_name:id tool_input:text tool_use_id:id",
        blocks=True,
        claude="PreToolUse",
    ),
    _event(
        "module.load.before",
        "A module's code is about to be loaded.",
        "name:id version:id hash:id",
        blocks=True,
    ),
    _event(
        "prompt.before",
        "An agent is about to be sent a prompt.",
        "prompt:text",
        blocks=True,
        claude="UserPromptSubmit",
    ),
    _event(
        "stop.before",
        "An agent is about to end its work.",
        "stop_hook_active:flag last_assistant_message:text",
        blocks=True,
        claude="Stop",
    ),
)

CATALOG: Mapping[str, EventKind] = MappingProxyType({kind.name: kind for kind in _KINDS})
FACTS: Mapping[str, EventKind] = MappingProxyType(
    {kind.name: kind for kind in _KINDS if not kind.blocks}
)
"""Events of what has happened: what the bus and the event stream carry."""

CORE = frozenset(name.partition(".")[0] for name in CATALOG) - _LENT
"""First words that are the core's alone: no module's event begins with one.

Daily, Chat and Brain publish events of their own.
"""
