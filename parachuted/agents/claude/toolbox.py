"""The job's tools as an MCP server in this process, and the gate that refuses all others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Any

from claude_agent_sdk import (
    HookContext,
    HookInput,
    HookJSONOutput,
    SdkMcpTool,
    ToolAnnotations,
    create_sdk_mcp_server,
)
from claude_agent_sdk.types import PostToolUseHookSpecificOutput, SyncHookJSONOutput

from parachuted.agents.calling import call_tool, find_excess
from parachuted.agents.job import Compacting, NativeCallResult, NativeTools, Tool, ToolResult

# beyond it the CLI puts a result into a file, which an agent without file tools cannot read
_RESULT_CHARS = 400_000
_TOLD_CHARS = 100_000


class Toolbox:
    """Serves the tools; `bug` is what a tool, or what guards the CLI's own, raised that it should
    not have.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        native: NativeTools | None = None,
    ) -> None:
        self.native = list(native.tools) if native is not None else []
        self.bug: Exception | None = None
        self._tools = tuple(tools)
        self._native = native
        self._ended: Callable[[], str | None] = lambda: None
        self._context = copy_context()
        self._compacting: Compacting | None = None
        self.servers = {
            name: create_sdk_mcp_server(
                name, tools=[self._offer(tool) for tool in tools if tool.server == name]
            )
            for name in dict.fromkeys(tool.server for tool in tools)
        }

    @property
    def names(self) -> list[str]:
        return [tool.full_name for tool in self._tools]

    def serve(
        self,
        tools: Sequence[Tool],
        ended: Callable[[], str | None],
        compacting: Compacting | None = None,
    ) -> None:
        """Serve another run, whose tools have the same names and schemas."""
        self._tools, self._ended, self._context = tuple(tools), ended, copy_context()
        self._compacting = compacting
        self.bug = None

    def stop_serving(self) -> None:
        """No run goes on: there is no tool, and every call is denied."""
        self._tools, self._compacting = (), None

    async def gate(
        self, asked: HookInput, _use: str | None, _context: HookContext
    ) -> HookJSONOutput:
        """Deny every tool that is not the job's, whatever the CLI may bring along, and what the SDK
        would quote back in full.
        """
        reason = await self._find_objection(asked)
        if reason is None:
            return {}
        answer = self._end()
        answer["hookSpecificOutput"] = {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
        return answer

    async def look_after(
        self, done: HookInput, _use: str | None, _context: HookContext
    ) -> HookJSONOutput:
        """Tell the agent what became of what one of the CLI's own tools did, also where that
        failed: half of it may be done.

        After any call, the run may be at its end.
        """
        name, arguments = done.get("tool_name"), done.get("tool_input")
        native, event = self._native, done.get("hook_event_name")
        if native is None or not isinstance(name, str) or name not in native.tools:
            return self._end()
        failed = event == "PostToolUseFailure"
        response = None if failed else done.get("tool_response")
        result = ToolResult(
            text=_words(done.get("error") if failed else response),
            is_error=failed,
            response=response,
        )
        try:
            after = await native.after(
                name, arguments if isinstance(arguments, Mapping) else {}, result
            )
        except Exception as bug:
            self.bug = bug
            raise
        answer = self._end()
        if failed and after.context:
            answer["hookSpecificOutput"] = {
                "hookEventName": "PostToolUseFailure",
                "additionalContext": after.context,
            }
        elif after.context or after.output is not None:
            answer["hookSpecificOutput"] = _after(after)
        return answer

    async def before_compaction(
        self, asked: HookInput, _use: str | None, _context: HookContext
    ) -> HookJSONOutput:
        """Say what the run says of a compaction: an objection stops it."""
        if self._compacting is None:
            return {}
        trigger, instructions = asked.get("trigger"), asked.get("custom_instructions")
        try:
            said = await self._compacting(
                str(trigger or "auto"), instructions if isinstance(instructions, str) else None
            )
        except Exception as bug:
            self.bug = bug
            raise
        if said.objection is not None:
            return {"decision": "block", "reason": said.objection, "systemMessage": said.objection}
        # what a callback says to the person is what the CLI adds to its instructions
        return {"systemMessage": said.instructions} if said.instructions else {}

    def _end(self) -> SyncHookJSONOutput:
        """The value that ends the CLI's loop, when a hook asked for that."""
        reason = self._ended()
        return {} if reason is None else {"continue_": False, "stopReason": reason}

    async def _find_objection(self, asked: HookInput) -> str | None:
        name, arguments = asked.get("tool_name"), asked.get("tool_input")
        native = self._native
        if name in self.names:
            return find_excess(arguments)
        if native is None or not isinstance(name, str) or name not in native.tools:
            return "this agent lacks that tool"
        if not isinstance(arguments, Mapping):
            return "the arguments are not a JSON object; nothing was done"
        try:
            return find_excess(arguments) or await native.before(name, arguments)
        except Exception as bug:
            self.bug = bug
            raise

    def _offer(self, tool: Tool) -> SdkMcpTool[Any]:
        async def handle(arguments: Mapping[str, object]) -> dict[str, Any]:
            # the SDK's task belongs to the run that started the process, the call to this one
            call = asyncio.get_running_loop().create_task(
                call_tool(self._tools, tool.name, arguments),
                name=f"the tool {tool.name}",
                context=self._context,
            )
            try:
                result = await call
            except Exception as bug:
                self.bug = bug
                raise
            return {"content": [{"type": "text", "text": result.text}], "is_error": result.is_error}

        annotations = ToolAnnotations(maxResultSizeChars=_RESULT_CHARS)
        # a schema without both keys is to the SDK a table of parameters, all of them required
        schema = {"type": "object", "properties": {}, **tool.schema}
        return SdkMcpTool(tool.name_at_server, tool.description, schema, handle, annotations)


def _after(after: NativeCallResult) -> PostToolUseHookSpecificOutput:
    said: PostToolUseHookSpecificOutput = {"hookEventName": "PostToolUse"}
    if after.context:
        said["additionalContext"] = after.context
    if after.output is not None:
        said["updatedToolOutput"] = after.output
    return said


def _words(response: object) -> str:
    """What a tool answered, as a text, cut at a length that is worth reading."""
    if isinstance(response, Mapping) and isinstance(response.get("stdout"), str):
        response = "\n".join(str(response.get(part) or "") for part in ("stdout", "stderr")).strip(
            "\n"
        )
    text = (
        response
        if isinstance(response, str)
        else json.dumps(response, ensure_ascii=False, default=str)
    )
    return text[:_TOLD_CHARS]
