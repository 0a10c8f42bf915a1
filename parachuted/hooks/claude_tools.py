"""Presents calls of our tools in the form that a hook written for Claude Code expects.

A hook for `Write|Edit` also sees `update_context`, with `tool_input` as Claude Code has it;
arguments that it changes are translated back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from parachuted.hooks.hook_event import HookEvent

TOOL_EVENTS = frozenset({"tool.before", "tool.after", "tool.failed"})
CLI_TOOLS = frozenset({"Bash", "Edit", "Glob", "Grep", "Read", "WebFetch", "WebSearch", "Write"})
"""The tools of Claude Code's own that an agent can be granted."""
REPLACED = "replaced"
"""The field of an occurrence's data, which no hook reads, that holds the text which a call of ours
is about to replace.
"""
FULL_NAME = "full_name"
"""The same for the name that the model sees, where the tool is none of `OUR_TOOLS`."""

_FILE = "file_path"


@dataclass(frozen=True, slots=True)
class _Counterpart:
    """A tool of Claude Code.

    `arguments`: its name for each of ours; `fixed`: arguments that it has besides.
    """

    name: str
    arguments: Mapping[str, str]
    fixed: Mapping[str, object] = field(default_factory=dict)


def _writing(path: str, text: str) -> tuple[_Counterpart, _Counterpart]:
    fixed = {"old_string": "", "replace_all": False}
    return _Counterpart("Edit", {path: _FILE, text: "new_string"}, fixed), _Counterpart(
        "Write", {path: _FILE, text: "content"}
    )


_OF_NOTES = (
    "edit_section",
    "list_notes",
    "move_note",
    "read_note",
    "search_notes",
    "set_key",
    "write_note",
)
_OF_CURATOR = ("list_context_files", "no_change", "read_context", "update_context")
OUR_TOOLS: Mapping[str, tuple[_Counterpart, ...]] = MappingProxyType(
    {
        "edit_section": _writing("path", "text"),
        "list_context_files": (),
        "list_system_files": (),
        "list_notes": (_Counterpart("Glob", {"folder": "path"}),),
        "move_note": (_Counterpart("Edit", {"path": _FILE}), _Counterpart("Write", {"to": _FILE})),
        "no_change": (),
        "read_context": (_Counterpart("Read", {_FILE: _FILE}),),
        "read_note": (_Counterpart("Read", {"path": _FILE}),),
        "read_system_file": (),
        "search_notes": (_Counterpart("Grep", {"query": "pattern"}),),
        "set_key": _writing("path", "value"),
        "suggest_change": (),
        "update_context": _writing(_FILE, "content"),
        "use_skill": (),
        "write_note": _writing("path", "text")[::-1],
    }
)
"""Our tools, and Claude Code's that do the same, the nearest first."""
_SERVERS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(OUR_TOOLS, "parachute"),
        **dict.fromkeys(_OF_NOTES, "vault"),
        **dict.fromkeys(_OF_CURATOR, "curator"),
    }
)
WRITING_TOOLS = frozenset(
    name for name, same in OUR_TOOLS.items() if any(one.name == "Write" for one in same)
) | {"Edit", "MultiEdit", "NotebookEdit", "Write"}
"""The tools that write notes, ours and Claude Code's."""


def forms(hook_event: HookEvent) -> Iterator[HookEvent]:
    """The occurrence under each name that it has, ours first.

    Only a call of one of our tools has several.
    """
    data = hook_event.data
    name, replaced = data.get("tool_name"), data.get(REPLACED, "")
    hook_event = replace(
        hook_event,
        data={key: value for key, value in data.items() if key not in {REPLACED, FULL_NAME}},
    )
    if hook_event.event not in TOOL_EVENTS or not isinstance(name, str):
        yield hook_event
        return
    own = _with(
        hook_event,
        tool_input=_with_whole_path(hook_event.data.get("tool_input"), hook_event.vault)
        if name in OUR_TOOLS
        else None,
    )
    yield own
    full = f"mcp__{_SERVERS[name]}__{name}" if name in _SERVERS else data.get(FULL_NAME)
    if full is not None:
        yield _with(own, tool_name=full)
    for counterpart in OUR_TOOLS.get(name, ()):
        yield _in_shape(hook_event, counterpart, str(replaced))


def in_our_shape(
    hook_event: HookEvent, sent: HookEvent, arguments: Mapping[str, object]
) -> dict[str, object]:
    """Translate the arguments that a hook returned for `sent` back into those of
    `hook_event`'s tool.
    """
    name, known = str(hook_event.data.get("tool_name")), sent.data.get("tool_name")
    counterpart = next((one for one in OUR_TOOLS.get(name, ()) if one.name == known), None)
    own_arguments = dict(arguments)
    if counterpart is not None:
        own_names = {spelled: own for own, spelled in counterpart.arguments.items()}
        own_arguments = {
            own_names.get(key, key): value
            for key, value in arguments.items()
            if key not in counterpart.fixed
        }
    if name in OUR_TOOLS:
        folder = f"{hook_event.vault}/"
        for key in (_FILE, "path"):
            if isinstance(place := own_arguments.get(key), str):
                own_arguments[key] = place.removeprefix(folder)
    return own_arguments


def _in_shape(hook_event: HookEvent, counterpart: _Counterpart, replaced: str) -> HookEvent:
    given = hook_event.data.get("tool_input")
    arguments = dict(given) if isinstance(given, Mapping) else {}
    renamed = {counterpart.arguments.get(key, key): value for key, value in arguments.items()}
    shaped = _with_whole_path({**counterpart.fixed, **renamed}, hook_event.vault)
    if "old_string" in shaped:
        shaped["old_string"] = replaced
    blocks = hook_event.data.get("tool_response")
    response = (
        None
        if blocks is None
        else _response(
            counterpart.name, shaped, _text(blocks), replaced, hook_event.data.get("duration_ms")
        )
    )
    return _with(hook_event, tool_name=counterpart.name, tool_input=shaped, tool_response=response)


def _response(
    name: str, given: Mapping[str, object], text: str, replaced: str, took: object
) -> dict[str, object]:
    place, lines = given.get(_FILE), text.splitlines()
    if name == "Read":
        file = {
            "filePath": place,
            "content": text,
            "numLines": len(lines),
            "startLine": 1,
            "totalLines": len(lines),
        }
        return {"type": "text", "file": file}
    if name == "Grep":
        return {
            "mode": "content",
            "numFiles": 0,
            "filenames": [],
            "content": text,
            "numLines": len(lines),
        }
    if name == "Glob":
        return {"filenames": lines, "durationMs": took, "numFiles": len(lines), "truncated": False}
    patched: dict[str, object] = {
        "filePath": place,
        "structuredPatch": [],
        "originalFile": replaced or None,
        "success": True,
    }
    if name == "Edit":
        return patched | {
            "oldString": replaced,
            "newString": given.get("new_string"),
            "originalFile": None,
            "userModified": False,
            "replaceAll": False,
        }
    return patched | {"type": "update" if replaced else "create", "content": given.get("content")}


def _text(blocks: object) -> str:
    return (
        "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, Mapping))
        if isinstance(blocks, list)
        else str(blocks)
    )


def _with_whole_path(arguments: object, vault: Path) -> dict[str, object]:
    found = dict(arguments) if isinstance(arguments, Mapping) else {}
    if isinstance(place := found.get(_FILE), str):
        found[_FILE] = str(vault / place)
    return found


def _with(hook_event: HookEvent, **data: object) -> HookEvent:
    return replace(
        hook_event,
        data={
            **hook_event.data,
            **{name: value for name, value in data.items() if value is not None},
        },
    )
