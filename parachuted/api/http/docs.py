"""Docs: the API's description, with modules' routes in it, as an OpenAPI document and as a page
that shows it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import cast

from aiohttp import web

from parachuted.api.http.answers import json_bytes
from parachuted.api.http.decorators import get
from parachuted.api.http.file_answers import KNOWN
from parachuted.api.http.openapi import JsonObject, describe, error_of, operation_id, without_null
from parachuted.api.http.route import ApiCall, MediaBody, Route
from parachuted.events import EventKind
from parachuted.modules.declare import REST, path_fields
from parachuted.modules.registry.declaration import ModuleDeclaration, RouteSpec, ToolSpec

_ERRORS = (400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 502, 503, 507)
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_RESUMING: list[JsonObject] = [
    {
        "name": name,
        "in": place,
        "required": False,
        "schema": {"type": "string"},
        "description": "The id of the last event that was received; what followed comes first.",
    }
    for name, place in (("Last-Event-ID", "header"), ("after", "query"))
]
_SECURITY: list[JsonObject] = [{"bearer": []}, {"api_key": []}]


def add_modules(document: JsonObject, modules: Iterable[ModuleDeclaration]) -> None:
    paths, tags = (
        cast("dict[str, JsonObject]", document["paths"]),
        cast("list[JsonObject]", document["tags"]),
    )
    schemas = cast("JsonObject", cast("JsonObject", document["components"])["schemas"])
    for module in modules:
        tags.append(
            {"name": module.name, "description": module.description or f"The module {module.name}."}
        )
        for route in module.routes:
            path = f"{module.prefix_of(route)}{route.path.replace(REST, '')}".rstrip("/")
            paths.setdefault(path, {}).setdefault(
                route.method.lower(), _route(module, route, path, schemas)
            )
        for tool in module.tools:
            path = f"/api/modules/{module.name}/tools/{tool.name}"
            paths[path] = {"post": _tool(module, tool, path, schemas)}


def _route(
    module: ModuleDeclaration, route: RouteSpec, path: str, schemas: JsonObject
) -> JsonObject:
    named = path_fields(route.path)
    schema = _hoisted(module, route.schema, schemas)
    fields, required = (
        cast("dict[str, JsonObject]", schema.get("properties", {})),
        cast("list[str]", schema.get("required", [])),
    )
    free = {name: said for name, said in fields.items() if name not in named}
    text = {"type": "string", "minLength": 1}
    parameters: list[JsonObject] = [
        {"name": name, "in": "path", "required": True, "schema": text} for name in named
    ]
    operation = _operation(module, route.method, path, route.summary, route.capability)
    if route.secret_header:
        operation |= {"security": [], "x-secret-header": route.secret_header}
    if route.takes != "json":
        operation["requestBody"] = _upload(route)
    if route.takes != "json" or route.method in {"GET", "HEAD", "DELETE"}:
        parameters += [
            {
                "name": name,
                "in": "query",
                "required": name in required,
                "schema": without_null(said),
            }
            for name, said in free.items()
        ]
    elif free or schema.get("additionalProperties"):
        needed = [name for name in required if name in free]
        body = {**schema, "properties": free, "required": needed}
        operation["requestBody"] = {
            "required": bool(needed),
            "content": {"application/json": {"schema": body}},
        }
    if route.resumes:
        parameters += _RESUMING
    if parameters:
        operation["parameters"] = parameters
    operation["responses"] = {
        **_responses(),
        "200": _answer(_hoisted(module, route.answer, schemas), streams=route.streams),
    }
    return operation


def _upload(route: RouteSpec) -> JsonObject:
    kind, schema = (
        ("application/octet-stream", {"type": "string", "format": "binary"})
        if route.takes == "bytes"
        else ("multipart/form-data", {"type": "object"})
    )
    return {
        "required": True,
        "description": f"At most {route.max_bytes:,} bytes.",
        "content": {kind: {"schema": schema}},
    }


def _answer(schema: JsonObject, *, streams: bool) -> JsonObject:
    if streams:
        says = (
            "Server-sent events, each with JSON as its data; an event `error` when it goes wrong."
        )
        return {
            "description": says,
            "content": {"text/event-stream": {"x-itemSchema": schema} if schema else {}},
        }
    return {
        "description": "What the module answers.",
        "content": {"application/json": {"schema": schema}},
    }


def _tool(module: ModuleDeclaration, tool: ToolSpec, path: str, schemas: JsonObject) -> JsonObject:
    schema = _hoisted(module, tool.schema, schemas)
    operation = _operation(module, "POST", path, tool.description.partition("\n")[0], "write")
    operation["requestBody"] = {
        "required": bool(schema.get("required")),
        "content": {"application/json": {"schema": schema}},
    }
    result: JsonObject = {
        "type": "object",
        "properties": {"result": _hoisted(module, tool.answer, schemas)},
        "required": ["result"],
    }
    answer = {
        "description": "What the tool returned.",
        "content": {"application/json": {"schema": result}},
    }
    return {**operation, "responses": {**_responses(), "200": answer}}


def _operation(
    module: ModuleDeclaration, method: str, path: str, summary: str, capability: str
) -> JsonObject:
    return {
        "operationId": operation_id(method, path),
        "tags": [module.name],
        "summary": summary,
        "x-module": module.name,
        "x-capability": capability,
        "x-reach": "paths",
        "security": _SECURITY,
    }


def _responses() -> JsonObject:
    other = {
        "description": "A module may answer by other statuses too.",
        "content": {"application/json": {"schema": {}}},
    }
    return {**{str(status): error_of(status) for status in _ERRORS}, "default": other}


def _hoisted(
    module: ModuleDeclaration, schema: Mapping[str, object], schemas: JsonObject
) -> JsonObject:
    """The schema, with what it defines moved to where the whole document finds it, under the
    module's name.

    Where that name is taken by something else, such as the same model as it is sent, a number
    follows the module's name.
    """
    text = json.dumps(dict(schema))
    for number in count(1):
        prefix = f"{module.name}{number if number > 1 else ''}."
        found: JsonObject = json.loads(text.replace('"#/$defs/', f'"#/components/schemas/{prefix}'))
        defined = {
            prefix + name: said
            for name, said in cast("JsonObject", found.pop("$defs", {})).items()
            if _NAME.fullmatch(name)
        }
        if all(schemas.get(name, said) == said for name, said in defined.items()):
            break
    schemas.update(defined)
    return found


_PAGE = Path(__file__).with_name("docs.html")


class DocsRoutes:
    def __init__(
        self,
        described: Sequence[Route],
        modules: Callable[[], list[ModuleDeclaration]],
        events: Callable[[], list[EventKind]],
    ) -> None:
        """`described` may still grow until the first request; `modules` are those that run just
        now, and `events` the known kinds with them.
        """
        self._described, self._modules, self._events = described, modules, events
        self._page = _PAGE.read_text("utf-8")
        self._making = asyncio.Lock()
        self._document: tuple[bytes, str] | None = None
        self._of: tuple[list[ModuleDeclaration], list[EventKind]] = ([], [])

    @get(
        "/api/openapi.json",
        "system",
        "read",
        reach="nothing",
        answers={200: dict[str, object], 304: None},
        headers={"If-None-Match": KNOWN},
    )
    async def document(self, call: ApiCall) -> web.Response:
        """This description.

        Built in a thread, at the first request and when the running modules have changed.
        """
        async with self._making:
            now = (self._modules(), self._events())
            if self._document is None or now != self._of:
                self._document, self._of = await asyncio.to_thread(self._make, *now), now
            body, tag = self._document
        if call.request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return web.Response(
            body=body, headers={"ETag": tag}, content_type="application/json", charset="utf-8"
        )

    @get(
        "/api/docs",
        "system",
        None,
        reach="nothing",
        answers={200: MediaBody(type="text/html", says="The page.")},
    )
    async def page(self) -> web.Response:
        """This description as a web page.

        The page requests the document with its reader's key.
        """
        return web.Response(
            text=self._page,
            content_type="text/html",
            headers={"Content-Security-Policy": _policy(self._page)},
        )

    def _make(
        self, modules: Sequence[ModuleDeclaration], events: Sequence[EventKind]
    ) -> tuple[bytes, str]:
        document = describe(self._described)
        add_modules(document, modules)
        document["x-events"] = {
            kind.name: {
                "description": kind.tells,
                "x-module": kind.publisher or "core",
                "x-scope": f"{kind.scope}:read",
                "data": kind.schema(),
            }
            for kind in events
        }
        body = json_bytes(document)
        return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _policy(page: str) -> str:
    """What a browser may run and load for that page: its own script and style, known by their
    digests, and calls to the daemon.
    """
    script, style = (_digest(page, name) for name in ("script", "style"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src "
        "data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for "
        "'script'; trusted-types 'none'"
    )


def _digest(page: str, name: str) -> str:
    (text,) = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
