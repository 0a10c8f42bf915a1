"""Tools: what a client may do. Their definitions are part of every prompt, so they are short."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

from aiohttp import web

from parachuted.access.caller import Caller, WorkRequest
from parachuted.access.filter import AccessFilter
from parachuted.access.private_text import left_out_of
from parachuted.agents.calling import CUT_SHORT, call_tool, recorded_as
from parachuted.agents.job import Tool, ToolResult
from parachuted.api.http.answers import http_sentence, json_bytes
from parachuted.api.http.route import ApiCall
from parachuted.audit.chain import AuditEvent
from parachuted.errors import ParachuteError
from parachuted.keys import BEYOND_PATHS, Capability, Identity
from parachuted.mcp.clients import ClientSources, McpClient
from parachuted.modules.hosting.audited import para_ids_of
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.registry.declaration import ToolSpec
from parachuted.modules.results import Response
from parachuted.runs.note_tools import NoteTools
from parachuted.tools.definitions import (
    Schema,
    ToolDefinition,
    ToolDescription,
    brief,
    refused,
    tools_in,
)
from parachuted.vault import new_id

log = logging.getLogger(__name__)

_MODULE = "mcp"
_LONGEST_PATH = 600


@dataclass(slots=True, kw_only=True)
class ToolCall:
    """One call of a tool on its way: by whom, in which request, with which arguments."""

    client: McpClient
    api: ApiCall
    arguments: Mapping[str, object]

    def touch(self, *paths: str) -> None:
        """Note the paths among the arguments, for the audit."""
        self.api.touched.extend(path[:_LONGEST_PATH] for path in paths)

    def within(self, module: str, capability: Capability) -> ApiCall:
        """The call as a route of the API takes it that needs this scope. 403 without the scope."""
        grant = self.api.identity.grant(module, capability)
        if grant is None:
            raise web.HTTPForbidden(text=f"this key lacks the scope {module}:{capability}")
        api = copy(self.api)
        api.files = AccessFilter(self.api.files.root, grant, for_agents=True)
        return api


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTool:
    """`checked`: what arguments are checked by, where that says more than the description."""

    description: ToolDescription
    call: Callable[[ToolCall], Awaitable[object]]
    checked: Schema | None = None


class McpTools:
    """For notes, of `vault_tools`, and of modules, on which a key needs `write`."""

    def __init__(self, vault_tools: object, modules: ModuleManager, sources: ClientSources) -> None:
        self._modules, self._sources = modules, sources
        self._fixed = [
            # all that these do is done by a bounded vault, so keys with paths may call them
            ServedTool(
                description=replace(definition, for_path_keys=True),
                call=partial(_call_note_tool, definition),
            )
            for definition in tools_in(NoteTools)
        ]
        self._fixed += [
            ServedTool(description=definition, call=partial(_call_method, definition, vault_tools))
            for definition in tools_in(type(vault_tools))
        ]

    def offered(self, identity: Identity) -> list[ServedTool]:
        found: dict[str, ServedTool] = {}
        for tool in (*self._fixed, *self._of_modules()):
            known = tool.description
            grant = identity.grant(known.module, known.capability)
            if grant is not None and not identity.is_beyond(
                grant, for_path_keys=known.for_path_keys
            ):
                found.setdefault(known.name, tool)
        return list(found.values())

    async def call(
        self, client: McpClient, api: ApiCall, name: str, arguments: object
    ) -> ToolResult:
        """Whatever is wrong comes back as an error result. Its `response` is the answer."""
        began = time.perf_counter()
        tools = [tool for tool in self.offered(client.identity) if tool.description.name == name]
        known = (tool.description.name for tool in (*self._fixed, *self._of_modules()))
        if not tools and client.identity.has_paths and name in known:
            return ToolResult.refusal(BEYOND_PATHS)
        result = CUT_SHORT
        try:
            made = client.hooks.tools([_checked(tool, client, api) for tool in tools])
            result = await call_tool(made, name, arguments)
        finally:
            self._record(client, api, name, result, (time.perf_counter() - began) * 1000)
        return result

    def _record(
        self, client: McpClient, api: ApiCall, name: str, result: ToolResult, took_ms: float
    ) -> None:
        recorded, error = recorded_as(name, result)
        self._sources.vaults.audit.record(
            AuditEvent(
                timestamp=self._sources.clock(),
                event_type="mcp_call",
                source_type="agent",
                source_id=client.by,
                target_module=_MODULE,
                target_endpoint=f"{_MODULE}.{recorded}{left_out_of(result.response)}",
                duration_ms=took_ms,
                success=not result.is_error,
                error=error,
                request_id=api.id,
                paths=tuple(api.touched),
            )
        )

    def _of_modules(self) -> list[ServedTool]:
        """One name of several modules has the module's before it."""
        offered = [
            tool for tool in self._modules.tools() if not (tool[1].in_runs_only or tool[1].agent)
        ]
        times = Counter(spec.name for _module, spec in offered)
        return [
            self._module_tool(
                module, spec, spec.name if times[spec.name] == 1 else f"{module}-{spec.name}"
            )
            for module, spec in offered
        ]

    def _module_tool(self, module: str, spec: ToolSpec, name: str) -> ServedTool:
        description = ToolDescription(
            name=name,
            description=spec.description,
            takes=_brief(spec.schema),
            module=module,
            capability="write",
        )
        checked = {"type": "object", **spec.schema}
        return ServedTool(
            description=description,
            call=partial(self._call_module, module, spec.name),
            checked=checked,
        )

    async def _call_module(self, module: str, tool: str, call: ToolCall) -> object:
        """What follows from it counts as a stranger's once the client has read one's text."""
        client, identity = call.client, call.client.identity
        if client.taint:
            raise web.HTTPForbidden(
                text=f"{client.taint.why()}, so tools of modules are not for this client any more"
            )
        caller = Caller(
            request=WorkRequest(
                by="person",
                entry="http",
                who=client.by,
                key=identity.api_key,
                id=call.api.id,
                is_valid=lambda: self._sources.holds(identity),
            ),
            causes=(new_id("c", self._sources.clock()),),
            taint=client.taint,
        )
        result = await self._modules.call_tool(module, tool, call.arguments, caller)
        body = result.body if isinstance(result, Response) else result
        if isinstance(result, Response) and result.status >= HTTPStatus.BAD_REQUEST:
            words = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
            raise web.HTTPUnprocessableEntity(text=words)
        call.api.para_ids.extend(para_ids_of(body))
        return body


async def _call_note_tool(definition: ToolDefinition, call: ToolCall) -> object:
    client, sent = call.client, call.arguments
    call.touch(*(str(sent[name]) for name in ("path", "to") if name in sent))
    writing = partial(client.writing, request_id=call.api.id)
    tools = NoteTools(vault=client.vault, writing=writing, seen=client.seen)
    return await definition.call(tools, sent=sent)


async def _call_method(definition: ToolDefinition, owner: object, call: ToolCall) -> object:
    return await definition.call(owner, call, sent=call.arguments)


def _checked(tool: ServedTool, client: McpClient, api: ApiCall) -> Tool:
    """As `call_tool` takes it: it checks the arguments, and unknown ones are refused."""

    async def called(arguments: Mapping[str, object]) -> ToolResult:
        try:
            answer = await tool.call(ToolCall(client=client, api=api, arguments=arguments))
        except ParachuteError as error:
            return refused(error)
        except web.HTTPException as error:
            return ToolResult.refusal(http_sentence(error))
        except Exception:
            log.exception(
                "a tool failed", extra={"tool": tool.description.name, "request_id": api.id}
            )
            return ToolResult.refusal("something unexpected; `parachute logs` has it")
        document = answer if isinstance(answer, Mapping) else {"result": answer}
        return ToolResult(text=json_bytes(document).decode(), response=document)

    known = tool.description
    return Tool(
        name=known.name,
        description=known.description,
        schema={"additionalProperties": False, **(tool.checked or known.takes)},
        call=called,
        server=known.module,
    )


def _brief(schema: Schema) -> Schema:
    """As a model needs it: a call is checked by the whole of it."""
    fields = {name: value for name, value in schema.items() if name != "additionalProperties"}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        fields["properties"] = {name: brief(shape) for name, shape in properties.items()}
    return {"type": "object", **fields}
