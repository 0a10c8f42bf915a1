"""Claude tools: hooks that were written for Claude Code's tools, pasted as they are, and asked
about ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.agents import Tool, ToolResult
from parachuted.hooks import HookEvent
from parachuted.hooks.claude_tools import OUR_TOOLS, forms
from parachuted.runs.agent_hooks import AgentHooks
from parachuted.runs.note_tools import NoteTools
from parachuted.runs.skills import TOOL as SKILL_TOOL
from parachuted.tools.context_files import ContextFiles
from tests.hooks.serving import running_hooks

CONTEXT = {"file_path": "Work/AGENTS.md", "section": "Facts", "content": "- new"}
NOTE = {"path": "Work/a.md", "section": "Facts", "text": "- new"}


async def asked(
    tmp_path: Path,
    name: str,
    arguments: Mapping[str, object],
    matcher: str,
    script: str = "",
    **keys: object,
) -> tuple[list[dict[str, object]], Mapping[str, object], ToolResult]:
    """What a pasted hook reads before and after that call, what the tool was given, and what the
    agent is told.
    """
    home, vault = tmp_path / "home", tmp_path / "vault"
    home.mkdir(mode=0o700)
    vault.mkdir()
    before = {"type": "command", "command": f"cat >> {tmp_path}/told; {script}", **keys}
    after = {"type": "command", "command": f"cat >> {tmp_path}/told"}
    groups = {
        "PreToolUse": [{"matcher": matcher, "hooks": [before]}],
        "PostToolUse": [{"matcher": matcher, "hooks": [after]}],
    }
    (home / "hooks.yaml").write_text(json.dumps({"hooks": groups}))
    given: list[Mapping[str, object]] = []

    async def call(arguments: Mapping[str, object]) -> ToolResult:
        given.append(arguments)
        return ToolResult(text="done")

    async with running_hooks(home, vault) as hooks:
        agent = AgentHooks(
            asker=hooks,
            clock=lambda: datetime.now(UTC),
            vault=vault,
            session_id="s",
            agent="a",
            replaced=lambda *_called: "- old",
        )
        made = Tool(name=name, description="", schema={}, call=call, server="travel")
        (tool,) = agent.tools([made])
        result = await tool.call(arguments)
    reported = tmp_path / "told"
    return (
        [json.loads(line) for line in reported.read_text().splitlines()]
        if reported.exists()
        else [],
        given[0] if given else {},
        result,
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "matcher", "name", "expected"),
    [
        (
            "update_context",
            CONTEXT,
            "Write|Edit",
            "Edit",
            {"file_path": "Work/AGENTS.md", "old_string": "- old", "new_string": "- new"},
        ),
        (
            "update_context",
            CONTEXT,
            "Write",
            "Write",
            {"file_path": "Work/AGENTS.md", "content": "- new"},
        ),
        (
            "update_context",
            CONTEXT,
            "^(Edit|MultiEdit)$",
            "Edit",
            {"file_path": "Work/AGENTS.md", "new_string": "- new"},
        ),
        ("edit_section", NOTE, "Edit", "Edit", {"file_path": "Work/a.md", "new_string": "- new"}),
        (
            "set_key",
            {"path": "Work/a.md", "key": "k", "value": "- new"},
            "Edit|Write",
            "Edit",
            {"file_path": "Work/a.md", "new_string": "- new"},
        ),
        (
            "write_note",
            {"path": "Work/a.md", "text": "# A"},
            "Edit|Write",
            "Write",
            {"file_path": "Work/a.md", "content": "# A"},
        ),
        ("read_note", {"path": "Work/a.md"}, "Read", "Read", {"file_path": "Work/a.md"}),
        (
            "read_context",
            {"file_path": "Work/AGENTS.md"},
            "Read",
            "Read",
            {"file_path": "Work/AGENTS.md"},
        ),
        ("search_notes", {"query": "roof"}, "Grep", "Grep", {"pattern": "roof"}),
        ("list_notes", {"folder": "Work"}, "Glob", "Glob", {"path": "Work"}),
        ("read_note", {"path": "a.md"}, "mcp__.*", "mcp__vault__read_note", {"path": "a.md"}),
        ("update_context", CONTEXT, "update_context|Edit", "update_context", CONTEXT),
        ("update_context", CONTEXT, "*", "update_context", CONTEXT),
        (
            "plan_trip",
            {"to": "Rome"},
            "mcp__travel__plan_trip",
            "mcp__travel__plan_trip",
            {"to": "Rome"},
        ),
    ],
)
async def test_a_hook_for_claude_codes_tool_is_asked_about_ours_in_its_shape(
    tool: str,
    arguments: Mapping[str, object],
    matcher: str,
    name: str,
    expected: Mapping[str, object],
    tmp_path: Path,
):
    reported, given, _ = await asked(tmp_path, tool, arguments, matcher)
    whole = {
        **expected,
        **(
            {"file_path": str(tmp_path / "vault" / str(expected["file_path"]))}
            if "file_path" in expected
            else {}
        ),
    }

    assert [one["hook_event_name"] for one in reported] == ["PreToolUse", "PostToolUse"]
    assert [one["tool_name"] for one in reported] == [name, name]
    assert all({**one["tool_input"], **whole} == one["tool_input"] for one in reported)
    assert not any("replaced" in one or "replaced" in one["data"] for one in reported)
    assert given == arguments


@pytest.mark.parametrize(
    ("tool", "matcher"),
    [("read_note", "Write|Edit"), ("update_context", "Read"), ("no_change", "Bash|Write")],
)
async def test_a_hook_for_what_our_tool_does_not_do_is_not_asked(
    tool: str, matcher: str, tmp_path: Path
):
    assert (await asked(tmp_path, tool, {}, matcher))[0] == []


async def test_a_guard_of_claude_codes_stops_our_tool(tmp_path: Path):
    script = """grep -q '"file_path": "[^"]*AGENTS.md"' && { echo "hands off" >&2; exit 2; }"""
    reported, given, result = await asked(
        tmp_path,
        "update_context",
        CONTEXT,
        "Edit|Write|MultiEdit",
        f"tail -n1 {tmp_path}/told | {script}",
    )

    assert (len(reported), given, result.is_error) == (1, {}, True)
    assert "hands off" in result.text


@pytest.mark.parametrize(
    ("matcher", "field"),
    [("Edit", "new_string"), ("Write", "content"), ("update_context", "content")],
)
async def test_arguments_that_it_changes_come_back_in_ours(
    matcher: str, field: str, tmp_path: Path
):
    place = str(tmp_path / "vault/Work/AGENTS.md")
    changed = {
        "file_path": place,
        "section": "Facts",
        field: "- other",
        **({"old_string": ""} if matcher == "Edit" else {}),
    }
    answer = json.dumps(
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": changed}}
    )
    _, given, _ = await asked(
        tmp_path, "update_context", CONTEXT, matcher, f"printf '%s' '{answer}'"
    )

    assert given == {**CONTEXT, "content": "- other"}


@pytest.mark.parametrize(
    ("rule", "is_meant"),
    [("Edit(Work/**)", True), ("Edit(Home/**)", False), ("Write(Work/**)", True)],
)
async def test_a_rule_about_claude_codes_tool_means_ours(rule: str, is_meant: bool, tmp_path: Path):  # noqa: FBT001  a table
    reported, _, _ = await asked(tmp_path, "update_context", CONTEXT, "Edit|Write", **{"if": rule})

    assert any(one["hook_event_name"] == "PreToolUse" for one in reported) is is_meant


@pytest.mark.parametrize(
    ("tool", "arguments", "matcher", "expected"),
    [
        (
            "update_context",
            CONTEXT,
            "Edit",
            {
                "filePath": "Work/AGENTS.md",
                "oldString": "- old",
                "newString": "- new",
                "replaceAll": False,
            },
        ),
        (
            "write_note",
            {"path": "Work/a.md", "text": "# A"},
            "Write",
            {"filePath": "Work/a.md", "content": "# A", "type": "update"},
        ),
        (
            "read_note",
            {"path": "Work/a.md"},
            "Read",
            {"file": {"filePath": "Work/a.md", "content": "done", "numLines": 1}},
        ),
        (
            "search_notes",
            {"query": "roof"},
            "Grep",
            {"mode": "content", "content": "done", "numLines": 1},
        ),
        (
            "list_notes",
            {"folder": "Work"},
            "Glob",
            {"filenames": ["done"], "numFiles": 1, "truncated": False},
        ),
    ],
)
async def test_what_our_tool_answered_has_the_shape_of_claude_codes_tool(
    tool: str,
    arguments: Mapping[str, object],
    matcher: str,
    expected: Mapping[str, object],
    tmp_path: Path,
):
    reported, _, _ = await asked(tmp_path, tool, arguments, matcher)
    response = reported[1]["tool_response"]
    for place in (response, response.get("file", {})):
        if "filePath" in place:
            place["filePath"] = place["filePath"].removeprefix(f"{tmp_path}/vault/")
    if "file" in expected:
        response["file"] = {name: response["file"][name] for name in expected["file"]}
    assert {name: response[name] for name in expected} == expected


async def test_what_our_tool_answered_is_a_list_of_blocks_as_of_any_tool_of_a_server(
    tmp_path: Path,
):
    reported, _, _ = await asked(tmp_path, "update_context", CONTEXT, "mcp__.*")

    assert reported[1]["tool_response"] == [{"type": "text", "text": "done"}]


def test_every_tool_of_ours_is_known_by_its_name_and_its_arguments():
    context = ContextFiles.tools(ContextFiles(store=None, grant=None, author=None, clock=None))  # type: ignore[arg-type]
    notes = NoteTools(vault=None, writing=None).tools(may_write=True)  # type: ignore[arg-type]
    schemas = {tool.name: tool.schema["properties"] for tool in (*context, *notes)}

    assert OUR_TOOLS.keys() - schemas.keys() == {
        "list_system_files",
        "read_system_file",
        "suggest_change",
        SKILL_TOOL,
    }
    assert all(
        one.arguments.keys() <= schemas[name].keys()
        for name, counterparts in OUR_TOOLS.items()
        for one in counterparts
    )
    assert schemas.keys() < OUR_TOOLS.keys()
    for tool in (*context, *notes):
        data = {"tool_name": tool.name}
        called = HookEvent(event="tool.before", at=datetime.now(UTC), data=data, vault=Path("/"))
        names = [one.data["tool_name"] for one in forms(called)]
        assert names[:2] == [tool.name, tool.full_name]
