"""Tools: what a client may do, each declared once, however it is connected.

The definitions are part of every prompt of every client, so they are short. What does the work is
the client's bounded vault, the routes of the API and the tools of modules; nothing is done twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import TypeAlias

from aiohttp import web

from parachuted.access.authority import Authority
from parachuted.access.filter import AccessFilter
from parachuted.access.private_text import left_out_of
from parachuted.agents import Tool, ToolResult
from parachuted.agents.calling import call_tool
from parachuted.api.http.answers import http_sentence, json_bytes, json_value
from parachuted.api.http.route import ApiCall
from parachuted.audit.chain import AuditEvent, AuditRecorder
from parachuted.errors import ParachuteError
from parachuted.keys import Capability, Identity
from parachuted.mcp.clients import McpClient
from parachuted.modules.hosting.audited import para_ids_of
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.registry.declaration import ToolSpec
from parachuted.modules.results import Response
from parachuted.runs.note_tools import NoteTools
from parachuted.tools.definitions import Schema, ToolDefinition, refused, tools_in
from parachuted.vault import VaultRoot, new_id

log = logging.getLogger(__name__)

_MODULE = "mcp"
_LONGEST_ERROR = _LONGEST_PATH = 600
_MOST_KEYS, _KEYS_S = 1_000, 600.0

_CUT_SHORT = "the call was cut short"


@dataclass(slots=True, kw_only=True)
class ToolCall:
    """One call of a tool on its way: by whom, in which request, with which arguments."""

    client: McpClient
    api: ApiCall
    given: Mapping[str, object]

    def touch(self, *paths: str) -> None:
        """Note the paths among the arguments, for the audit."""
        self.api.touched.extend(path[:_LONGEST_PATH] for path in paths)

    def within(self, root: VaultRoot, module: str, capability: Capability, **names: str) -> ApiCall:
        """The call as a route of the API takes it that needs this scope. `names`: what stands in
        the route's path. 403 without the scope.
        """
        grant = self.api.identity.grant(module, capability)
        if grant is None:
            raise web.HTTPForbidden(text=f"this key lacks the scope {module}:{capability}")
        return _NamedCall(
            request=self.api.request,
            route=self.api.route,
            identity=self.api.identity,
            grant=grant,
            sight=AccessFilter(root, grant, for_agents=True),
            caller=self.api.caller,
            touched=self.api.touched,
            para_ids=self.api.para_ids,
            names=names,
        )


@dataclass(slots=True, kw_only=True)
class _NamedCall(ApiCall):
    names: Mapping[str, str]

    def named(self, name: str) -> str:
        return self.names[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTool:
    """One tool.

    `takes` and `answers` are JSON schemas of objects; `checked` is what arguments are checked by,
    where that says more. `module` and `capability` are the scope that
    it needs. `is_destructive`: it may take away or replace what is there; `is_idempotent`: a second
    equal call changes nothing more.
    """

    name: str
    description: str
    takes: Schema
    answers: Schema
    module: str
    capability: Capability
    call: Callable[[ToolCall], Awaitable[object]]
    checked: Schema | None = None
    is_destructive: bool = False
    is_idempotent: bool = False

    @property
    def is_read_only(self) -> bool:
        return self.capability == "read"


def note_tools() -> list[ServedTool]:
    """What agents in this process may do with notes, for clients."""
    return [_served(definition, _call_note_tool) for definition in tools_in(NoteTools)]


def tools_of(*owners: object) -> list[ServedTool]:
    """The tools among the methods of these, which take the call first."""

    def caller(owner: object) -> _CallDefined:
        return lambda definition, call: definition.call(owner, call, sent=call.given)

    return [
        _served(definition, caller(owner))
        for owner in owners
        for definition in tools_in(type(owner))
    ]


def _served(definition: ToolDefinition, call: _CallDefined) -> ServedTool:
    return ServedTool(
        name=definition.name,
        description=definition.description,
        takes=definition.takes,
        answers=definition.answers,
        module=definition.module,
        capability=definition.capability,
        call=partial(call, definition),
        is_destructive=definition.is_destructive,
        is_idempotent=definition.is_idempotent,
    )


async def _call_note_tool(definition: ToolDefinition, call: ToolCall) -> object:
    client, sent = call.client, call.given
    call.touch(*(str(sent[name]) for name in ("path", "to") if name in sent))
    writing = partial(client.writing, request_id=call.api.id)
    tools = NoteTools(vault=client.vault, writing=writing, seen=client.seen)
    return await definition.call(tools, sent=sent)


_CallDefined: TypeAlias = Callable[[ToolDefinition, ToolCall], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _Answered:
    """A call that had an idempotency key, and its answer."""

    asked: bytes
    result: asyncio.Future[ToolResult]
    at: float = field(default_factory=time.monotonic)


class McpTools:
    def __init__(
        self,
        tools: Sequence[ServedTool],
        of_modules: Callable[[], Sequence[ServedTool]],
        *,
        audit: AuditRecorder,
        clock: Callable[[], datetime],
    ) -> None:
        """`of_modules` gives the tools of the modules that run just now."""
        self._tools, self._of_modules = tools, of_modules
        self._audit, self._clock = audit, clock
        self._answered: OrderedDict[tuple[str, str], _Answered] = OrderedDict()

    def offered(self, identity: Identity) -> list[ServedTool]:
        """The tools that the identity's scopes allow, each name once."""
        found: dict[str, ServedTool] = {}
        for tool in (*self._tools, *self._of_modules()):
            if identity.grant(tool.module, tool.capability) is not None:
                found.setdefault(tool.name, tool)
        return list(found.values())

    async def call(
        self, client: McpClient, api: ApiCall, name: str, arguments: object, key: str | None = None
    ) -> ToolResult:
        """Call the tool of that name; whatever is wrong comes back as an error result. Its
        `response` is the answer, its `text` the same as JSON.

        With a `key`, a second equal call within ten minutes does nothing and gets the first one's
        answer, also while that is being made.
        """
        if key is None:
            return await self._call(client, api, name, arguments)
        place, asked = (client.identity.id, key), json_bytes([name, arguments])
        known = self._known(place)
        if known is not None and known.asked != asked:
            return _refused("that idempotency key belongs to another call; take a new one")
        if known is not None:
            return await asyncio.shield(known.result)
        answered = _Answered(asked, asyncio.get_running_loop().create_future())
        self._answered[place] = answered
        result = ToolResult(text=_CUT_SHORT, is_error=True)
        try:
            result = await self._call(client, api, name, arguments)
        finally:
            answered.result.set_result(result)
        return result

    def _known(self, place: tuple[str, str]) -> _Answered | None:
        oldest = time.monotonic() - _KEYS_S
        for key, one in tuple(self._answered.items()):
            if one.at > oldest and len(self._answered) < _MOST_KEYS:
                break
            del self._answered[key]
        return self._answered.get(place)

    async def _call(
        self, client: McpClient, api: ApiCall, name: str, arguments: object
    ) -> ToolResult:
        began = time.perf_counter()
        found = [tool for tool in self.offered(client.identity) if tool.name == name]
        result = ToolResult(text=_CUT_SHORT, is_error=True)
        try:
            made = client.hooks.tools([_checked(tool, client, api) for tool in found])
            result = _with_response(await call_tool(made, name, arguments))
        finally:
            self._record(client, api, name, result, (time.perf_counter() - began) * 1000)
        return result

    def _record(
        self, client: McpClient, api: ApiCall, name: str, result: ToolResult, took_ms: float
    ) -> None:
        self._audit.record(
            AuditEvent(
                timestamp=self._clock(),
                event_type="mcp_call",
                source_type="agent",
                source_id=client.by,
                target_module=_MODULE,
                target_endpoint=f"{_MODULE}.{name[:_LONGEST_ERROR]}{left_out_of(result.response)}",
                duration_ms=took_ms,
                success=not result.is_error,
                error=result.text[:_LONGEST_ERROR] if result.is_error else None,
                request_id=api.id,
                paths=tuple(api.touched),
            )
        )


def _checked(tool: ServedTool, client: McpClient, api: ApiCall) -> Tool:
    """The tool as `call_tool` takes it: it checks the arguments, and unknown ones are refused."""

    async def called(arguments: Mapping[str, object]) -> ToolResult:
        try:
            answer = await tool.call(ToolCall(client=client, api=api, given=arguments))
        except ParachuteError as error:
            return refused(error)
        except web.HTTPException as error:
            return _refused(http_sentence(error))
        except Exception:
            log.exception("a tool failed", extra={"tool": tool.name, "request_id": api.id})
            return _refused("something unexpected; `parachute logs` has it")
        document = answer if isinstance(answer, Mapping) else {"result": answer}
        return ToolResult(text=json_bytes(document).decode(), response=document)

    schema = {"additionalProperties": False, **(tool.checked or tool.takes)}
    return Tool(
        name=tool.name,
        description=tool.description,
        schema=schema,
        call=called,
        server=tool.module,
    )


def _with_response(result: ToolResult) -> ToolResult:
    """An answer that a hook replaced is an object too, or it is an error: clients check it."""
    if result.is_error or result.response is not None:
        return result
    try:
        answer = json_value(result.text.encode())
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return replace(result, response=answer)
    return _refused(f"a hook replaced the answer: {result.text}")


def _refused(text: str) -> ToolResult:
    return ToolResult(text=text, is_error=True)


_LARGEST_SCHEMA = 400
_LIMITS = frozenset({"minLength", "maxLength", "minimum", "maximum", "pattern", "default"})
_ANYTHING: tuple[object, ...] = ({}, True)  # what a schema of any value is


class ServedModuleTools:
    """The tools of all modules. A key needs `write` on a module to call its tools, as it does over
    HTTP.
    """

    def __init__(
        self,
        modules: ModuleManager,
        holds: Callable[[Identity], bool],
        clock: Callable[[], datetime],
    ) -> None:
        self._modules, self._holds, self._clock = modules, holds, clock

    def tools(self) -> Sequence[ServedTool]:
        """Those that are there just now; one name of several modules has the module's before it."""
        offered = [one for one in self._modules.tools() if not one[1].in_runs_only]
        times = Counter(spec.name for _module, spec in offered)
        return [
            self._tool(
                module, spec, spec.name if times[spec.name] == 1 else f"{module}-{spec.name}"
            )
            for module, spec in offered
        ]

    def _tool(self, module: str, spec: ToolSpec, name: str) -> ServedTool:
        return ServedTool(
            name=name,
            description=spec.description,
            takes=_brief(spec.schema),
            checked={"type": "object", **spec.schema},
            answers=_short(spec.answer),
            module=module,
            capability="write",
            call=partial(self._call, module, spec.name),
            is_destructive=True,
        )

    async def _call(self, module: str, tool: str, call: ToolCall) -> object:
        """What follows from it reaches no further than the key does on that module, and counts as
        a stranger's once the client has read one's text.
        """
        client, identity = call.client, call.client.identity
        grant = call.api.identity.grant(module, "write")
        if grant is None:
            raise web.HTTPForbidden(text=f"this key lacks the scope {module}:write")
        if client.taint:
            raise web.HTTPForbidden(
                text=f"{client.taint.why()}, so tools of modules are not for this client any more"
            )
        authority = Authority(
            reads=grant,
            writes=grant,
            holds=lambda: self._holds(identity),
            causes=(new_id("c", self._clock()),),
            entry="http",
            asked_by="person",
            taint=client.taint,
            caller=identity.api_key,
            request_id=call.api.id,
            who=client.by,
        )
        result = await self._modules.call_tool(module, tool, call.given, authority)
        body = result.body if isinstance(result, Response) else result
        if isinstance(result, Response) and result.status >= HTTPStatus.BAD_REQUEST:
            said = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
            raise web.HTTPUnprocessableEntity(text=said)
        call.api.para_ids.extend(para_ids_of(body))
        return body


def _brief(schema: Schema) -> Schema:
    """The schema of arguments as a model needs it: a call is checked by the whole of it."""
    kept = {name: value for name, value in schema.items() if name != "additionalProperties"}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        kept["properties"] = {name: _brief_one(one) for name, one in properties.items()}
    return {"type": "object", **kept}


def _brief_one(shape: object) -> object:
    """What may be left out need not be null too, its default is the module's matter, a value beyond
    a limit is refused with the limit, and a schema of anything says nothing.
    """
    if not isinstance(shape, Mapping):
        return shape
    kept = {
        name: value
        for name, value in shape.items()
        if name not in _LIMITS
        and not (name in {"items", "additionalProperties"} and value in _ANYTHING)
    }
    ways = [_brief_one(one) for one in kept.pop("anyOf", ()) if one != {"type": "null"}]
    if len(ways) == 1 and isinstance(ways[0], Mapping):
        return {**kept, **ways[0]}
    return {**kept, "anyOf": ways} if ways else kept


def _short(schema: Schema) -> Schema:
    """The schema of an answer, where it is worth its room in every prompt."""
    is_object = schema.get("type") == "object"
    return schema if is_object and len(json.dumps(schema)) <= _LARGEST_SCHEMA else {}
