"""Toolbox: the job's tools as an MCP server inside our process, and the gate that lets nothing else run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from claude_agent_sdk import HookContext, HookInput, HookJSONOutput, SdkMcpTool, ToolAnnotations, create_sdk_mcp_server

from parachuted.agents.calling import call_tool, find_excess
from parachuted.agents.claude.transcript import PREFIX, SERVER
from parachuted.agents.job import Tool

_RESULT_CHARS = 400_000  # beyond it the CLI puts a result into a file, which an agent without file tools cannot read


class Toolbox:
    """Serves the tools; `bug` is what a tool raised that it should not have."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.names = [PREFIX + tool.name for tool in tools]
        self.bug: Exception | None = None
        self._tools = tuple(tools)
        self.server = create_sdk_mcp_server(SERVER, tools=[self._offer(tool) for tool in tools])

    async def gate(self, asked: HookInput, _use: str | None, _context: HookContext) -> HookJSONOutput:
        """Deny every tool that is not the job's, whatever the CLI may bring along, and what the SDK would quote back in full."""
        is_ours = asked.get("tool_name") in self.names
        reason = find_excess(asked.get("tool_input")) if is_ours else "this agent has no such tool"
        if reason is None:
            return {}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}}

    def _offer(self, tool: Tool) -> SdkMcpTool[Any]:
        async def handle(arguments: Mapping[str, object]) -> dict[str, Any]:
            try:
                result = await call_tool(self._tools, tool.name, arguments)
            except Exception as bug:
                self.bug = bug
                raise
            return {"content": [{"type": "text", "text": result.text}], "is_error": result.is_error}

        annotations = ToolAnnotations(maxResultSizeChars=_RESULT_CHARS)
        return SdkMcpTool(tool.name, tool.description, dict(tool.schema), handle, annotations)
