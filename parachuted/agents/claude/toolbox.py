"""The job's tools as an MCP server in this process, and the gate that refuses all others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, cast

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
from parachuted.agents.job import Job, Tool, ToolResult

# beyond it the CLI puts a result into a file, which an agent without file tools cannot read
_RESULT_CHARS = 400_000
_TOLD_CHARS = 100_000
_ID_CHARS = 100


class Toolbox:
    """`bug` is what a tool, or what guards the CLI's own, raised that it should not have."""

    def __init__(self, job: Job) -> None:
        self.native = list(job.native.tools) if job.native is not None else []
        self._native = job.native
        self.servers = {
            name: create_sdk_mcp_server(
                name, tools=[self._offer(tool) for tool in job.tools if tool.server == name]
            )
            for name in dict.fromkeys(tool.server for tool in job.tools)
        }
        self.serve(job)

    @property
    def names(self) -> list[str]:
        return [tool.full_name for tool in self._tools]

    def serve(self, job: Job) -> None:
        """A run, whose tools have the same names and schemas as those of the first."""
        self._tools, self._ended, self._context = job.tools, job.ended, copy_context()
        self.bug: Exception | None = None

    def stop_serving(self) -> None:
        """No run goes on: there is no tool, and every call is denied."""
        self._tools = ()

    async def gate(
        self, asked: HookInput, use: str | None, _context: HookContext
    ) -> HookJSONOutput:
        """Deny every tool that is not the job's, whatever the CLI may bring along, and arguments
        that the SDK would quote back in full.
        """
        reason = await self._find_objection(asked, _id_of(use))
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
        self, done: HookInput, use: str | None, _context: HookContext
    ) -> HookJSONOutput:
        """Also where a call of the CLI's own tools failed: half of it may be done."""
        name, arguments = done.get("tool_name"), done.get("tool_input")
        native, event = self._native, done.get("hook_event_name")
        if native is None or not isinstance(name, str) or name not in native.tools:
            return self._end()
        failed = event == "PostToolUseFailure"
        response = None if failed else done.get("tool_response")
        text = _words(done.get("error") if failed else response)
        result = ToolResult(text=text, is_error=failed, response=response)
        arguments = arguments if isinstance(arguments, Mapping) else {}
        with self._noting_bugs():
            context = await native.after(name, arguments, result, _id_of(use))
        answer = self._end()
        if context:
            added = {"hookEventName": event, "additionalContext": context}
            answer["hookSpecificOutput"] = cast("PostToolUseHookSpecificOutput", added)
        return answer

    @contextmanager
    def _noting_bugs(self) -> Iterator[None]:
        try:
            yield
        except Exception as bug:
            self.bug = bug
            raise

    def _end(self) -> SyncHookJSONOutput:
        reason = self._ended()
        return {} if reason is None else {"continue_": False, "stopReason": reason}

    async def _find_objection(self, hook_input: HookInput, use: str) -> str | None:
        name, arguments = hook_input.get("tool_name"), hook_input.get("tool_input")
        native = self._native
        if name in self.names:
            return find_excess(arguments)
        if native is None or not isinstance(name, str) or name not in native.tools:
            return "this agent lacks that tool"
        if not isinstance(arguments, Mapping):
            return "the arguments are not a JSON object; nothing was done"
        with self._noting_bugs():
            return find_excess(arguments) or await native.before(name, arguments, use)

    def _offer(self, tool: Tool) -> SdkMcpTool[Any]:
        async def handle(arguments: Mapping[str, object]) -> dict[str, Any]:
            # the SDK's task belongs to the run that started the process, the call to this one
            call = asyncio.get_running_loop().create_task(
                call_tool(self._tools, tool.name, arguments),
                name=f"the tool {tool.name}",
                context=self._context,
            )
            with self._noting_bugs():
                result = await call
            return {"content": [{"type": "text", "text": result.text}], "is_error": result.is_error}

        annotations = ToolAnnotations(maxResultSizeChars=_RESULT_CHARS)
        # a schema without both keys is to the SDK a table of parameters, all of them required
        schema = {"type": "object", "properties": {}, **tool.schema}
        return SdkMcpTool(tool.name_at_server, tool.description, schema, handle, annotations)


def _id_of(use: str | None) -> str:
    """What runs in a container may say anything in its place."""
    return str(use or "")[:_ID_CHARS]


def _words(response: object) -> str:
    if isinstance(response, Mapping) and isinstance(response.get("stdout"), str):
        parts = (str(response.get(part) or "") for part in ("stdout", "stderr"))
        response = "\n".join(parts).strip("\n")
    if not isinstance(response, str):
        response = json.dumps(response, ensure_ascii=False, default=str)
    return response[:_TOLD_CHARS]
