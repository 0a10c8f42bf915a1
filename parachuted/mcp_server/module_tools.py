"""Module tools: what the modules that run offer to agents, for clients too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from http import HTTPStatus

from aiohttp import web

from parachuted.access.authority import Authority
from parachuted.keys import Identity
from parachuted.mcp_server.tools import Schema, ServedTool, ToolCall
from parachuted.modules.hosting.audited import para_ids_of
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.registry.declaration import ToolSpec
from parachuted.modules.results import Response
from parachuted.vault import new_id

_LARGEST_SCHEMA = 400


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
        offered = self._modules.tools()
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
    """What may be left out need not be null too, and its default is the module's matter."""
    if not isinstance(shape, Mapping):
        return shape
    kept = {name: value for name, value in shape.items() if name != "default"}
    ways = [one for one in kept.get("anyOf", ()) if one != {"type": "null"}]
    if len(ways) == 1:
        return {**{name: value for name, value in kept.items() if name != "anyOf"}, **ways[0]}
    return {**kept, "anyOf": ways} if ways else kept


def _short(schema: Schema) -> Schema:
    """The schema of an answer, where it is worth its room in every prompt."""
    is_object = schema.get("type") == "object"
    return schema if is_object and len(json.dumps(schema)) <= _LARGEST_SCHEMA else {}
