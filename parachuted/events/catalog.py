"""Catalogue: every event, under the one name that it has in Python, settings, the event stream and
hooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from parachuted.access.events import PATH_KINDS, FieldKind, schema_of

_PATH, _PATHS, _TEXT, _TEXTS, _FREE, _MESSAGE, _ID, _IDS, _NUMBER, _FLAG = FieldKind

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

    `blocks`: only hooks receive it, before the act, and any of them may object; the bus does not
    carry it. `claude`: its name in Claude Code's hooks. `publisher`: the module that publishes it;
    None: the core. ValueError where a field has no kind, or quotes notes that no field names.
    """

    name: str
    tells: str
    fields: Mapping[str, FieldKind]
    blocks: bool = False
    claude: str = ""
    publisher: str | None = None
    path_fields: Mapping[str, FieldKind] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        untyped = [name for name, kind in self.fields.items() if not isinstance(kind, FieldKind)]
        if untyped:
            raise ValueError(
                f"{self.name}: the field {untyped[0][:80]} needs one of the kinds "
                f"{', '.join(FieldKind)}"
            )
        object.__setattr__(
            self,
            "path_fields",
            {name: kind for name, kind in self.fields.items() if kind in PATH_KINDS},
        )
        quoting = [name for name, kind in self.fields.items() if kind is FieldKind.TEXT]
        if quoting and not self.path_fields:
            raise ValueError(
                f"{self.name}: {quoting[0][:80]} is text of a note that no field names; add a "
                "path, or make it free"
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
        """The module that a key needs read access to."""
        if self.publisher is not None:
            return self.publisher
        return _SCOPES.get(self.name.partition(".")[0], _OTHER_SCOPE)


_CHANGE = {"path": _PATH, "by": _ID, "run": _ID, "key": _ID, "causes": _IDS, "digest": _ID}
_KINDS = (
    EventKind(name="file.created", tells="A file is new in the vault.", fields=_CHANGE),
    EventKind(name="file.modified", tells="A file's content changed.", fields=_CHANGE),
    EventKind(
        name="file.moved",
        tells="A file was moved or renamed; its content may have changed too.",
        fields={**_CHANGE, "from": _PATH},
    ),
    EventKind(name="file.deleted", tells="A file was deleted.", fields=_CHANGE),
    EventKind(
        name="watch.declared",
        tells="A note's `watch:` was added or changed.",
        fields={"watcher": _PATH, "patterns": _TEXT, "problems": _TEXT, "unmatched": _FREE},
    ),
    EventKind(
        name="watch.removed", tells="A note no longer watches anything.", fields={"watcher": _PATH}
    ),
    EventKind(
        name="task.queued",
        tells="A watcher has something to review.",
        fields={"task": _ID, "watcher": _PATH, "paths": _PATHS, "causes": _IDS, "due": _ID},
    ),
    EventKind(
        name="task.started",
        tells="An agent started a task.",
        fields={"task": _ID, "watcher": _PATH, "run": _ID, "backend": _ID},
    ),
    EventKind(
        name="task.finished",
        tells="A task is finished.",
        fields={"task": _ID, "watcher": _PATH, "run": _ID, "outcome": _ID},
    ),
    EventKind(
        name="run.finished",
        tells="An agent's run has ended.",
        fields={
            "run": _ID,
            "watcher": _PATH,
            "outcome": _ID,
            "reason": _FREE,
            "paths": _PATHS,
            "cost_usd": _NUMBER,
        },
    ),
    EventKind(
        name="run.undone",
        tells="A run, and what followed from it, was taken back.",
        fields={"run": _ID, "runs": _MESSAGE, "paths": _PATHS, "kept": _TEXTS, "undo": _ID},
    ),
    EventKind(
        name="permission.requested",
        tells="An agent asks a person for a permission.",
        fields={
            "id": _ID,
            "run": _ID,
            "session": _ID,
            "agent": _ID,
            "kind": _ID,
            "what": _FREE,
            "why": _FREE,
            "until": _ID,
        },
    ),
    EventKind(
        name="permission.answered",
        tells="An agent's request was answered (once, session or never), or is no longer open "
        "(unanswered or ended).",
        fields={
            "id": _ID,
            "run": _ID,
            "session": _ID,
            "agent": _ID,
            "kind": _ID,
            "what": _FREE,
            "answer": _ID,
        },
    ),
    EventKind(
        name="vault.problem",
        tells="The vault has a problem that a person should look at, or no longer has it.",
        fields={"subject": _MESSAGE, "problem": _MESSAGE},
    ),
    EventKind(
        name="budget.exceeded",
        tells="A task waits because a budget is used up.",
        fields={"task": _ID, "watcher": _PATH, "budget": _ID, "limit": _NUMBER},
    ),
    EventKind(
        name="session.start",
        tells="A session of Chat or Daily starts.",
        fields={"session_id": _ID, "module": _ID, "working_directory": _PATH},
        claude="SessionStart",
    ),
    EventKind(
        name="session.end",
        tells="A session was closed, or ended because no message came for a long time.",
        fields={"session_id": _ID, "message_count": _NUMBER, "duration": _NUMBER},
        claude="SessionEnd",
    ),
    EventKind(
        name="session.notification",
        tells="The agent of a conversation waits for the person: it asks something, or for leave.",
        fields={"session_id": _ID, "notification_type": _ID, "title": _MESSAGE, "message": _FREE},
        claude="Notification",
    ),
    EventKind(
        name="daily.entry.created",
        publisher="daily",
        tells="An entry of the journal was saved for the first time.",
        fields={
            "entry_id": _ID,
            "entry_path": _PATH,
            "content": _TEXT,
            "audio_path": _PATH,
            "causes": _IDS,
        },
    ),
    EventKind(
        name="daily.reflection.completed",
        publisher="daily",
        tells="A reflection on a day was written.",
        fields={"date": _ID, "agent": _ID, "output_path": _PATH, "status": _ID, "causes": _IDS},
    ),
    EventKind(
        name="chat.session.created",
        publisher="chat",
        tells="A conversation was created.",
        fields={
            "session_id": _ID,
            "title": _MESSAGE,
            "module": _ID,
            "source": _ID,
            "working_directory": _PATH,
            "causes": _IDS,
        },
    ),
    EventKind(
        name="chat.session.message",
        publisher="chat",
        tells="A message of a conversation was stored.",
        fields={
            "session_id": _ID,
            "message_id": _ID,
            "role": _ID,
            "source": _ID,
            "message_count": _NUMBER,
            "causes": _IDS,
        },
    ),
    EventKind(
        name="context.limit.approaching",
        tells="A session's context is nearly full, and will be compacted.",
        fields={"session_id": _ID, "token_count": _NUMBER, "threshold": _NUMBER},
    ),
    EventKind(
        name="brain.mention.detected",
        publisher="brain",
        tells="A text mentions something that Brain knows.",
        fields={"source_id": _ID, "para_id": _ID, "confidence": _NUMBER, "causes": _IDS},
    ),
    EventKind(
        name="tool.after",
        tells="An agent's tool call succeeded.",
        fields={
            "tool_name": _ID,
            "tool_input": _FREE,
            "tool_use_id": _ID,
            "tool_response": _FREE,
            "duration_ms": _NUMBER,
        },
        claude="PostToolUse",
    ),
    EventKind(
        name="tool.failed",
        tells="An agent's tool call failed.",
        fields={
            "tool_name": _ID,
            "tool_input": _FREE,
            "tool_use_id": _ID,
            "error": _FREE,
            "duration_ms": _NUMBER,
        },
        claude="PostToolUseFailure",
    ),
    EventKind(
        name="module.enabled",
        tells="A module is running.",
        fields={"name": _ID, "version": _ID, "hash": _ID},
    ),
    EventKind(
        name="module.disabled", tells="A module was stopped.", fields={"name": _ID, "version": _ID}
    ),
    EventKind(
        name="module.failed",
        tells="A module failed to start, or failed while it ran.",
        fields={"name": _ID, "version": _ID, "error": _FREE},
    ),
    EventKind(
        name="module.changed",
        tells="A module's folder differs from what was approved; the approved version keeps "
        "running.",
        fields={"name": _ID, "hash": _ID},
    ),
    EventKind(
        name="suggestion.created",
        tells="An agent or a module suggests a change, which waits for a person's decision.",
        fields={
            "id": _ID,
            "action": _ID,
            "path": _PATH,
            "target_module": _ID,
            "source_agent": _ID,
            "run": _ID,
            "causes": _IDS,
        },
    ),
    EventKind(
        name="suggestion.resolved",
        tells="A suggestion was approved, changed, rejected, or can no longer be applied.",
        fields={
            "id": _ID,
            "action": _ID,
            "path": _PATH,
            "target_module": _ID,
            "source_agent": _ID,
            "run": _ID,
            "causes": _IDS,
            "status": _ID,
            "resolved_by": _ID,
            "applied_run": _ID,
        },
    ),
    EventKind(
        name="hook.failed",
        tells="A hook failed.",
        fields={"hook": _MESSAGE, "event": _ID, "error": _FREE},
    ),
    EventKind(
        name="write.before",
        tells="Something is about to be written in the vault.",
        fields={
            "path": _PATH,
            "from": _PATH,
            "actor": _ID,
            "run": _ID,
            "causes": _IDS,
            "operation": _ID,
            "base": _ID,
            "digest": _ID,
            "sections": _TEXT,
            "frontmatter": _TEXT,
        },
        blocks=True,
    ),
    EventKind(
        name="bubble.before",
        tells="A watcher is about to be woken.",
        fields={
            "watcher": _PATH,
            "run": _ID,
            "paths": _PATHS,
            "causes": _IDS,
            "most_cost_usd": _NUMBER,
        },
        blocks=True,
    ),
    EventKind(
        name="tool.before",
        tells="An agent is about to call a tool.",
        fields={"tool_name": _ID, "tool_input": _FREE, "tool_use_id": _ID},
        blocks=True,
        claude="PreToolUse",
    ),
    EventKind(
        name="module.load.before",
        tells="A module's code is about to be loaded.",
        fields={"name": _ID, "version": _ID, "hash": _ID},
        blocks=True,
    ),
    EventKind(
        name="prompt.before",
        tells="An agent is about to be sent a prompt.",
        fields={"prompt": _FREE},
        blocks=True,
        claude="UserPromptSubmit",
    ),
    EventKind(
        name="stop.before",
        tells="An agent is about to end its work.",
        fields={"stop_hook_active": _FLAG, "last_assistant_message": _FREE},
        blocks=True,
        claude="Stop",
    ),
    EventKind(
        name="compact.before",
        tells="A session's context is about to be compacted.",
        fields={"trigger": _ID, "custom_instructions": _FREE},
        blocks=True,
        claude="PreCompact",
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
