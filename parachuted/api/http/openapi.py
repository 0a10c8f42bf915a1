"""OpenAPI: the API's description, made from the declarations of its routes and of modules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import override

from parachuted import __version__
from parachuted.api.http.route import MediaBody, NoParameters, Route, Wrapped
from parachuted.events import EventKind
from parachuted.modules.declare import REST, path_fields
from parachuted.modules.registry.declaration import ModuleDeclaration, RouteSpec, ToolSpec

JsonObject: TypeAlias = dict[str, Any]
_Mode: TypeAlias = Literal["validation", "serialization"]
_Key: TypeAlias = tuple[str, _Mode]

_NAMES = re.compile(r"\{(\w+)(:(?:[^{}]|\{[^{}]*\})*)?\}")
_DEFINED = re.compile(r"[A-Za-z0-9._-]+")
_BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
_EXAMPLE = "Projects/garden/AGENTS.md"
_REF = "#/components/schemas/{model}"
_SAYS = {
    400: "What was sent is not what the call takes.",
    401: "No key, or one that is not valid.",
    403: "Beyond what the key may do, or asked from a web page that is not listed.",
    404: "Not found, or not visible to this key: the answer is the same.",
    409: "The file changed since it was read, and `conflict` holds the texts; or another thing "
    "has that name.",
    413: "The body is larger than the call takes.",
    415: "The body is compressed, or of a type that the call does not take.",
    416: "The range lies outside the file; `Content-Range` says how many bytes it has.",
    422: "The change cannot be made as requested.",
    500: "Something unexpected; the log has it under `request_id`.",
    502: "What the call needed failed: a module, an agent, or the model.",
    503: "The daemon is ending or has too much to do; come back later.",
    507: "The disk refused; nothing was changed.",
}
_ERRORS = {str(status): {"$ref": f"#/components/responses/Error{status}"} for status in _SAYS}
_TEXT: JsonObject = {"type": "string"}
_INFO: JsonObject = {
    "title": "parachuted",
    "version": __version__,
    "description": (
        "The API of the daemon that keeps a vault of notes. Programs on the daemon's own machine "
        "need no key unless `auth_mode` says so. "
        "Paths are relative to the vault, times are RFC 3339 in UTC, but for those of sync (Unix "
        "seconds) and `timestamp` of health "
        "(milliseconds). `x-module` and `x-capability` of a call are what a key's scope must name; "
        "a key with paths can make those with `x-for-path-keys`, and no other."
    ),
}
_BEARER = {"type": "http", "scheme": "bearer"}
_HEADER = {"type": "apiKey", "in": "header", "name": "X-API-Key"}
_SECURITY: JsonObject = {
    "bearer": {**_BEARER, "description": "A key that `parachute keys create` has shown."},
    "api_key": {**_HEADER, "description": "The same key."},
}
_EVENTS = "text/event-stream"
_MODULES = {
    "vault": "Notes, files, sync, search, contexts and events.",
    "curator": "Watchers, tasks, runs, and where lines come from.",
    "system": "The daemon itself: health, keys, settings, the audit, this description.",
}


@dataclass(frozen=True, slots=True)
class Conflict:
    """`theirs` is there now, `hash` its digest or null; `ours` was sent; `base` is empty if
    unknown.
    """

    base: str
    ours: str
    theirs: str
    hash: str | None


@dataclass(frozen=True, slots=True)
class Error:
    """`message` is what is wrong, `detail` that and what to do about it."""

    error: str
    message: str
    detail: str
    request_id: str
    conflict: Annotated[Conflict, Field(exclude_if=bool)]


class _Plain(GenerateJsonSchema):
    """Without titles, which repeat the names. An answer has every field, so no defaults."""

    @override
    def default_schema(self, schema: Any) -> dict[str, Any]:
        is_answer = self.mode == "serialization"
        return (
            self.generate_inner(schema["schema"]) if is_answer else super().default_schema(schema)
        )

    @override
    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    @override
    def field_is_required(self, field: Mapping[str, Any], total: bool) -> bool:
        if field["type"] == "typed-dict-field":
            return bool(field.get("required", total))
        if self.mode == "serialization":
            return field.get("serialization_exclude_if") is None
        return bool(field["schema"]["type"] != "default")


def describe(
    routes: Sequence[Route],
    modules: Iterable[ModuleDeclaration] = (),
    events: Iterable[EventKind] = (),
) -> JsonObject:
    schemas, components = _schemas(routes)
    paths: dict[str, JsonObject] = {}
    for route in routes:
        path = _NAMES.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, schemas)
    known = {route.module for route in routes}
    tags = [{"name": name, "description": says} for name, says in _MODULES.items() if name in known]
    paths = dict(sorted(paths.items()))
    for module in modules:
        says = module.description or f"The module {module.name}."
        tags.append({"name": module.name, "description": says})
        for spec in module.routes:
            path = f"{module.prefix_of(spec)}{spec.path.replace(REST, '')}".rstrip("/")
            made = _module_route(module, spec, path, components)
            paths.setdefault(path, {}).setdefault(spec.method.lower(), made)
        for tool in module.tools:
            path = f"/api/modules/{module.name}/tools/{tool.name}"
            paths[path] = {"post": _module_tool(module, tool, path, components)}
    return {
        "openapi": "3.1.0",
        "info": _INFO,
        "servers": [{"url": "/", "description": "This daemon."}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                f"Error{status}": _json(says, {"$ref": _REF.format(model="Error")})
                for status, says in _SAYS.items()
            },
            "securitySchemes": _SECURITY,
        },
        "x-events": {kind.name: _event(kind) for kind in events},
    }


def _schemas(routes: Sequence[Route]) -> tuple[dict[_Key, JsonObject], JsonObject]:
    wanted: dict[_Key, object] = {_key(Error): Error}
    for route in routes:
        if route.body is not NoParameters:
            wanted[_key(route.body, "validation")] = route.body
        wanted |= {_key(shape): shape for shape in _shapes(route)}
    made, rest = TypeAdapter.json_schemas(
        [(key, key[1], TypeAdapter(cast("type[Any]", shape))) for key, shape in wanted.items()],
        ref_template=_REF,
        schema_generator=_Plain,
    )
    definitions: JsonObject = rest.get("$defs", {})
    for schema in (*made.values(), *definitions.values()):
        schema.pop("title", None)
        _say_bounds(schema)
    return {key: made[key, key[1]] for key in wanted}, definitions


def _shapes(route: Route) -> Iterator[object]:
    for answer in route.answers.values():
        for form in _forms(answer):
            shape = form.item if isinstance(form, MediaBody | Wrapped) else form
            if shape is not None:
                yield shape


def _forms(answer: object) -> Sequence[object]:
    return answer if isinstance(answer, (tuple, list)) else (answer,)


def _key(shape: object, mode: _Mode = "serialization") -> _Key:
    return repr(shape), mode


def _say_bounds(schema: object) -> None:
    """pydantic has its own words for the bounds of a number that a validator has seen before."""
    if isinstance(schema, dict):
        for said, means in _BOUNDS.items():
            if isinstance(schema.get(said), (int, float)):
                schema[means] = schema.pop(said)
        for part in schema.values():
            _say_bounds(part)
    elif isinstance(schema, list):
        for part in schema:
            _say_bounds(part)


def _operation(route: Route, path: str, schemas: Mapping[_Key, JsonObject]) -> JsonObject:
    content: JsonObject = {}
    if route.body is not NoParameters:
        content["application/json"] = {"schema": schemas[_key(route.body, "validation")]}
    if route.uploads is not None:
        content[route.uploads.type] = {"schema": _schema_of(route.uploads)}
    is_needed = route.uploads is not None or any(
        info.is_required() for info in route.body.model_fields.values()
    )
    answers: JsonObject = {
        str(status): _answer(status, answer, schemas) for status, answer in route.answers.items()
    }
    if "If-None-Match" in route.headers or "If-Match" in route.headers:
        says = "The SHA-256 of the content, in quotes."
        for answer in answers.values():
            answer["headers"] = {"ETag": {"schema": _TEXT, "description": says}}
    return _call(
        route.method,
        path,
        (route.module, route.capability, route.for_path_keys),
        route.summary,
        list(_parameters(route)),
        {"required": is_needed, "content": content} if content else None,
        {**_ERRORS, **answers},
    )


def _call(
    method: str,
    path: str,
    scope: tuple[str, str | None, bool],
    summary: str,
    parameters: list[JsonObject],
    body: JsonObject | None,
    responses: JsonObject,
) -> JsonObject:
    """`scope`: module, capability, whether it is for keys with paths."""
    spoken = path.removeprefix("/api/").replace("{", "by-").replace("}", "")
    words = re.split(r"[^A-Za-z0-9]+", spoken)
    return {
        "operationId": method.lower() + "".join(word[:1].upper() + word[1:] for word in words),
        "tags": [scope[0]],
        "summary": summary,
        "x-module": scope[0],
        "x-capability": scope[1],
        **({"x-for-path-keys": True} if scope[2] else {}),
        "security": [] if scope[1] is None else [{"bearer": []}, {"api_key": []}],
        **({"parameters": parameters} if parameters else {}),
        **({"requestBody": body} if body is not None else {}),
        "responses": responses,
    }


def _parameter(
    name: str, place: str, schema: JsonObject, says: str = "", *, is_needed: bool = False
) -> JsonObject:
    said = {"description": says} if says else {}
    return {"name": name, "in": place, "required": is_needed, "schema": schema, **said}


def _parameters(route: Route) -> Iterator[JsonObject]:
    """Parameters of path, query and headers; a name may come in camelCase too."""
    for name, pattern in _NAMES.findall(route.path):
        says = route.names.get(name, "")
        if "." in pattern:
            says = f"{says} It may hold slashes, as they are or as `%2F`.".strip()
        schema = _TEXT if pattern.endswith("*") else {**_TEXT, "minLength": 1}
        example = {"example": _EXAMPLE} if name == "path" else {}
        yield {**_parameter(name, "path", schema, says, is_needed=True), **example}
    whole = TypeAdapter(route.query).json_schema(schema_generator=_Plain, ref_template=_REF)
    _say_bounds(whole)
    for name, said in whole.get("properties", {}).items():
        reference = str(said.get("$ref", "")).rpartition("/")[2]
        schema = _without_null(whole["$defs"][reference] if reference else said)
        says = str(schema.pop("description", ""))
        is_needed = name in whole.get("required", [])
        more = {"style": "form", "explode": True} if schema.get("type") == "array" else {}
        yield {**_parameter(name, "query", schema, says, is_needed=is_needed), **more}
    for name, says in route.headers.items():
        yield _parameter(name, "header", _TEXT, says)


def _without_null(schema: JsonObject) -> JsonObject:
    """A query cannot say null."""
    said = {
        name: value for name, value in schema.items() if not (name == "default" and value is None)
    }
    left = [form for form in said.pop("anyOf", []) if form.get("type") != "null"]
    return {**said, **left[0]} if len(left) == 1 else {**said, **({"anyOf": left} if left else {})}


def _schema_of(media: MediaBody) -> JsonObject:
    return _TEXT if media.type.startswith("text/") else {**_TEXT, "format": "binary"}


def _json(says: str, schema: object) -> JsonObject:
    return {"description": says, "content": {"application/json": {"schema": schema}}}


def _answer(status: int, answer: object, schemas: Mapping[_Key, JsonObject]) -> JsonObject:
    content: JsonObject = {}
    says = []
    for form in _forms(answer):
        if isinstance(form, Wrapped):
            item = {form.name: schemas[_key(form.item)]}
            if form.is_counted:
                item["count"] = {"type": "integer"}
            body = {"type": "object", "properties": item, "required": list(item)}
            content["application/json"] = {"schema": body}
            continue
        if not isinstance(form, MediaBody):
            if form is not None:
                content["application/json"] = {"schema": schemas[_key(form)]}
            continue
        says.append(form.says)
        if form.item is not None:  # as OpenAPI 3.2 calls it
            content[form.type] = {"x-itemSchema": schemas[_key(form.item)]}
        else:  # events are looked at one by one
            content[form.type] = {} if form.type == _EVENTS else {"schema": _schema_of(form)}
    said: JsonObject = {"description": " ".join(filter(None, says)) or HTTPStatus(status).phrase}
    return {**said, "content": content} if content else said


def _event(kind: EventKind) -> JsonObject:
    return {
        "description": kind.tells,
        "x-module": kind.publisher or "core",
        "x-scope": f"{kind.scope}:read",
        "data": kind.schema(),
    }


def _module_route(
    module: ModuleDeclaration, route: RouteSpec, path: str, schemas: JsonObject
) -> JsonObject:
    named = path_fields(route.path)
    schema = _hoisted(module, route.schema, schemas)
    required = schema.get("required", [])
    free = {name: said for name, said in schema.get("properties", {}).items() if name not in named}
    text = {**_TEXT, "minLength": 1}
    parameters = [_parameter(name, "path", text, is_needed=True) for name in named]
    body: JsonObject | None = None
    if route.takes_body:
        content = {"application/octet-stream": {"schema": {**_TEXT, "format": "binary"}}}
        most = f"At most {route.max_bytes:,} bytes."
        body = {"required": True, "description": most, "content": content}
    if route.takes_body or route.method in {"GET", "HEAD", "DELETE"}:
        parameters += [
            _parameter(name, "query", _without_null(said), is_needed=name in required)
            for name, said in free.items()
        ]
    elif free or schema.get("additionalProperties"):
        needed = [name for name in required if name in free]
        taken = {**schema, "properties": free, "required": needed}
        body = {"required": bool(needed), "content": {"application/json": {"schema": taken}}}
    answer = _json("What the module answers.", _hoisted(module, route.answer, schemas))
    if route.streams:
        items = answer["content"].pop("application/json")["schema"]
        answer["content"][_EVENTS] = {"x-itemSchema": items} if items else {}
        answer["description"] = (
            "Server-sent events, each with JSON as its data; an event `error` when it goes wrong."
        )
    made = _call(
        route.method,
        path,
        (module.name, route.capability, False),
        route.summary,
        parameters,
        body,
        _module_responses(answer),
    )
    with_secret = {"security": [], "x-secret-header": route.secret_header}
    return {**made, **(with_secret if route.secret_header else {})}


def _module_tool(
    module: ModuleDeclaration, tool: ToolSpec, path: str, schemas: JsonObject
) -> JsonObject:
    schema = _hoisted(module, tool.schema, schemas)
    result: JsonObject = {
        "type": "object",
        "properties": {"result": _hoisted(module, tool.answer, schemas)},
        "required": ["result"],
    }
    content = {"application/json": {"schema": schema}}
    return _call(
        "POST",
        path,
        (module.name, "write", False),
        tool.description.partition("\n")[0],
        [],
        {"required": bool(schema.get("required")), "content": content},
        _module_responses(_json("What the tool returned.", result)),
    )


def _module_responses(answer: JsonObject) -> JsonObject:
    other = _json("A module may answer by other statuses too.", {})
    return {**_ERRORS, "default": other, "200": answer}


def _hoisted(
    module: ModuleDeclaration, schema: Mapping[str, object], schemas: JsonObject
) -> JsonObject:
    """The schema, its definitions moved to where the document finds them, as `module.Name`.

    Where that is taken, such as by the same model as it is sent, a number follows the module.
    """
    text = json.dumps(dict(schema))
    for number in count(1):
        prefix = f"{module.name}{number if number > 1 else ''}."
        found: JsonObject = json.loads(text.replace('"#/$defs/', f'"#/components/schemas/{prefix}'))
        defined = {
            prefix + name: said
            for name, said in found.pop("$defs", {}).items()
            if _DEFINED.fullmatch(name)
        }
        if all(schemas.get(name, said) == said for name, said in defined.items()):
            break
    schemas.update(defined)
    return found
