"""The names of tools that hooks may be for."""

from __future__ import annotations

TOOL_EVENTS = frozenset({"tool.before", "tool.after", "tool.failed"})
FULL_NAME = "full_name"
"""The field of a tool event's data with the name that the model sees: `mcp__<server>__<tool>`."""

CLI_TOOLS = frozenset({"Bash", "Edit", "Glob", "Grep", "Read", "WebFetch", "WebSearch", "Write"})
"""The tools of Claude Code's own that an agent can be granted."""

_WRITING = frozenset({"edit_section", "move_note", "set_key", "update_context", "write_note"})
OUR_TOOLS = _WRITING | {
    "list_context_files",
    "list_notes",
    "list_system_files",
    "no_change",
    "read_context",
    "read_note",
    "read_system_file",
    "search_notes",
    "suggest_change",
    "use_skill",
}
WRITING_TOOLS = _WRITING | {"Edit", "MultiEdit", "NotebookEdit", "Write"}
"""The tools that write notes, ours and Claude Code's."""
