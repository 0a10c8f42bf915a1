"""OpenAPI: the API's own description, an OpenAPI 3.1 document made from the declarations of its
routes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Literal, TypeAlias, cast

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from parachuted import __version__
from parachuted.api.http.route import MediaBody, NoParameters, Route

JsonObject: TypeAlias = dict[str, object]
_Mode: TypeAlias = Literal["validation", "serialization"]
_Key: TypeAlias = tuple[object, _Mode]

_NAMES = re.compile(r"\{(\w+)(:(?:[^{}]|\{[^{}]*\})*)?\}")
_BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
_EXAMPLE = "Projects/garden/AGENTS.md"
_REF = "#/components/schemas/{model}"
_ALWAYS = (400, 401, 403, 413, 415, 429, 500, 503, 507)
_OF_A_CHANGE = (409, 422)
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
    429: "Too many requests; `Retry-After` says when to come back.",
    500: "Something unexpected; the log has it under `request_id`.",
    502: "What the call needed failed: a module, an agent, or the model.",
    503: "The daemon is ending or has too much to do; come back later.",
    507: "The disk refused; nothing was changed.",
}
_ERROR: JsonObject = {
    "type": "object",
    "description": "What every error says: `message` what is wrong, `detail` that and what to do "
    "about it.",
    "properties": {
        name: {"type": "string"} for name in ("error", "message", "detail", "request_id")
    }
    | {"conflict": {"$ref": _REF.format(model="Conflict")}},
    "required": ["error", "message", "detail", "request_id"],
}
_CONFLICT: JsonObject = {
    "type": "object",
    "description": (
        "`theirs` is there now, and `hash` is its digest, null where no file is there or it is "
        "not told; `ours` was sent; "
        "`base` is what both began with, empty where unknown."
    ),
    "properties": {
        **{name: {"type": "string"} for name in ("base", "ours", "theirs")},
        "hash": {"type": ["string", "null"]},
    },
    "required": ["base", "ours", "theirs", "hash"],
}
_INFO: JsonObject = {
    "title": "parachuted",
    "version": __version__,
    "description": (
        "The API of the daemon that keeps a vault of notes. Programs on the daemon's own machine "
        "need no key unless `auth_mode` says so. "
        "Paths are relative to the vault, times are RFC 3339 in UTC, but for those of sync (Unix "
        "seconds) and `timestamp` of health "
        "(milliseconds). `x-module` and `x-capability` of a call are what a key's scope must name; "
        "where `x-reach` is `beyond`, a scope with paths is not enough."
    ),
}
_SECURITY: JsonObject = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key that `parachute keys create` has shown.",
    },
    "api_key": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "The same key.",
    },
}
_EVENTS = "text/event-stream"
_MODULES = {
    "vault": "Notes, files, sync, search, contexts and events.",
    "curator": "Watchers, tasks, runs, and where lines come from.",
    "system": "The daemon itself: health, keys, settings, the audit, this description.",
}


class _Plain(GenerateJsonSchema):
    """Without titles, which repeat the names."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002  pydantic asks by that name
        return False


def describe(routes: Sequence[Route]) -> JsonObject:
    schemas, definitions = _schemas(routes)
    paths: dict[str, JsonObject] = {}
    for route in routes:
        paths.setdefault(_path(route), {})[route.method.lower()] = _operation(route, schemas)
    tags = {
        name: says
        for name, says in _MODULES.items()
        if any(route.module == name for route in routes)
    }
    return {
        "openapi": "3.1.0",
        "info": _INFO,
        "servers": [{"url": "/", "description": "This daemon."}],
        "tags": [{"name": name, "description": says} for name, says in tags.items()],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {**definitions, "Conflict": _CONFLICT, "Error": _ERROR},
            "responses": {f"Error{status}": _error(status) for status in _SAYS},
            "securitySchemes": _SECURITY,
        },
    }


def _schemas(routes: Sequence[Route]) -> tuple[dict[_Key, JsonObject], JsonObject]:
    wanted: dict[_Key, TypeAdapter[object]] = {}
    for route in routes:
        if route.body is not NoParameters:
            wanted[route.body, "validation"] = TypeAdapter(route.body)
        for shape in _shapes(route):
            wanted[_hashable(shape), "serialization"] = TypeAdapter(cast("type[object]", shape))
    asked = [(key, key[1], adapter) for key, adapter in wanted.items()]
    made, rest = TypeAdapter.json_schemas(
        asked, by_alias=False, ref_template=_REF, schema_generator=_Plain
    )
    definitions = cast("dict[str, JsonObject]", rest.get("$defs", {}))
    for schema in (*made.values(), *definitions.values()):
        schema.pop("title", None)
        _say_bounds(schema)
    schemas = {key: made[key, key[1]] for key in wanted}
    for model in {route.body for route in routes} - {NoParameters}:
        _respell(_resolved(schemas[model, "validation"], definitions), model)
    return schemas, dict(definitions)


def _shapes(route: Route) -> Iterator[object]:
    for answer in route.answers.values():
        for way in _ways(answer):
            shape = way.item if isinstance(way, MediaBody) else way
            if shape is not None:
                yield shape


def _ways(answer: object) -> Sequence[object]:
    """An answer may come in several ways, as a tuple says."""
    return answer if isinstance(answer, (tuple, list)) else (answer,)


def _hashable(shape: object) -> object:
    try:
        hash(shape)
    except TypeError:
        return repr(shape)
    return shape


def _resolved(schema: JsonObject, definitions: Mapping[str, JsonObject]) -> JsonObject:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return definitions[name] if name else schema


def _respell(schema: JsonObject, model: type[BaseModel]) -> None:
    """Names that a model spells out as an alias (`in`) in place of its field's (`in_`); those that
    only a rule makes stay as they are.
    """
    names = {
        name: info.alias
        for name, info in model.model_fields.items()
        if info.alias and info.alias_priority != 1
    }
    properties = cast("JsonObject", schema.get("properties", {}))
    schema["properties"] = {names.get(name, name): said for name, said in properties.items()}
    schema["required"] = [
        names.get(name, name) for name in cast("list[str]", schema.get("required", []))
    ]


def _say_bounds(schema: object) -> None:
    """pydantic has its own words for the bounds of a number that something else has looked at
    before.
    """
    if isinstance(schema, dict):
        for said, means in _BOUNDS.items():
            if isinstance(schema.get(said), (int, float)):
                schema[means] = schema.pop(said)
    for part in (
        schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    ):
        _say_bounds(part)


def _path(route: Route) -> str:
    return _NAMES.sub(r"{\1}", route.path)


def _operation(route: Route, schemas: Mapping[_Key, JsonObject]) -> JsonObject:
    operation: JsonObject = {
        "operationId": operation_id(route.method, _path(route)),
        "tags": [route.module],
        "summary": route.summary,
        "x-module": route.module,
        "x-capability": route.capability,
        "x-reach": route.reach,
        "security": [] if route.capability is None else [{"bearer": []}, {"api_key": []}],
        "responses": _responses(route, schemas),
    }
    if parameters := [
        *_path_parameters(route),
        *_query_parameters(route),
        *_header_parameters(route),
    ]:
        operation["parameters"] = parameters
    content: JsonObject = {}
    if route.body is not NoParameters:
        content["application/json"] = {"schema": schemas[route.body, "validation"]}
    if route.uploads is not None:
        content[route.uploads.type] = {"schema": _schema_of(route.uploads)}
    if content:
        is_needed = route.uploads is not None or any(
            info.is_required() for info in route.body.model_fields.values()
        )
        operation["requestBody"] = {"required": is_needed, "content": content}
    return operation


def operation_id(method: str, path: str) -> str:
    """`getRunsById` for `GET /api/runs/{id}`."""
    spoken = path.removeprefix("/api/").replace("{", "by-").replace("}", "")
    return method.lower() + "".join(
        word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", spoken)
    )


def _path_parameters(route: Route) -> Iterator[JsonObject]:
    for name, pattern in _NAMES.findall(route.path):
        says = route.names.get(name, "")
        if "." in pattern:
            says = f"{says} It may hold slashes, as they are or as `%2F`.".strip()
        schema: JsonObject = (
            {"type": "string"} if pattern.endswith("*") else {"type": "string", "minLength": 1}
        )
        example = {"example": _EXAMPLE} if name == "path" else {}
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": schema,
            **({"description": says} if says else {}),
            **example,
        }


def _query_parameters(route: Route) -> Iterator[JsonObject]:
    """The fields of the query's model, each a parameter.

    Nothing is refused here that the model takes: a name may come in camelCase too.
    """
    if route.query is NoParameters:
        return
    whole = TypeAdapter(route.query).json_schema(
        by_alias=False, schema_generator=_Plain, ref_template=_REF
    )
    _say_bounds(whole)
    _respell(whole, route.query)
    definitions = cast("dict[str, JsonObject]", whole.get("$defs", {}))
    required = cast("list[str]", whole.get("required", []))
    for name, said in cast("dict[str, JsonObject]", whole.get("properties", {})).items():
        schema = without_null(_resolved(said, definitions))
        says = schema.pop("description", None)
        yield {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": schema,
            **({"style": "form", "explode": True} if schema.get("type") == "array" else {}),
            **({"description": says} if says else {}),
        }


def _header_parameters(route: Route) -> Iterator[JsonObject]:
    for name, says in route.headers.items():
        yield {
            "name": name,
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": says,
        }


def without_null(schema: JsonObject) -> JsonObject:
    """The schema of a value that is there: a query cannot say null."""
    said = {
        name: value for name, value in schema.items() if not (name == "default" and value is None)
    }
    ways = cast("list[JsonObject]", said.pop("anyOf", []))
    left = [way for way in ways if way.get("type") != "null"]
    return {**said, **left[0]} if len(left) == 1 else {**said, **({"anyOf": left} if left else {})}


def _responses(route: Route, schemas: Mapping[_Key, JsonObject]) -> JsonObject:
    answers = {
        str(status): _answer(status, answer, schemas) for status, answer in route.answers.items()
    }
    if "If-None-Match" in route.headers or "If-Match" in route.headers:
        for answer in answers.values():
            answer["headers"] = {
                "ETag": {
                    "schema": {"type": "string"},
                    "description": "The SHA-256 of the content, in quotes.",
                }
            }
    return {
        **answers,
        **{
            str(status): error_of(status)
            for status in errors_of(route)
            if status not in route.answers
        },
    }


def error_of(status: int) -> JsonObject:
    return {"$ref": f"#/components/responses/Error{status}"}


def errors_of(route: Route) -> list[int]:
    errors = {*_ALWAYS, *route.errors}
    if route.query is not NoParameters or route.body is not NoParameters or "{" in route.path:
        errors.add(404)
    if route.method != "GET":
        errors.update(_OF_A_CHANGE)
    return sorted(errors)


def _schema_of(media: MediaBody) -> JsonObject:
    return (
        {"type": "string"}
        if media.type.startswith("text/")
        else {"type": "string", "format": "binary"}
    )


def _answer(status: int, answer: object, schemas: Mapping[_Key, JsonObject]) -> JsonObject:
    content: JsonObject = {}
    says = []
    for way in _ways(answer):
        if isinstance(way, MediaBody):
            content[way.type] = (
                {"schema": _schema_of(way)} if way.type != _EVENTS else {}
            )  # which are looked at one by one
            if way.item is not None:  # as OpenAPI 3.2 calls it
                content[way.type] = {"x-itemSchema": schemas[_hashable(way.item), "serialization"]}
            says.append(way.says)
        elif way is not None:
            content["application/json"] = {"schema": schemas[_hashable(way), "serialization"]}
    said: JsonObject = {"description": " ".join(filter(None, says)) or HTTPStatus(status).phrase}
    return {**said, "content": content} if content else said


def _error(status: int) -> JsonObject:
    schema = {"$ref": _REF.format(model="Error")}
    return {"description": _SAYS[status], "content": {"application/json": {"schema": schema}}}
