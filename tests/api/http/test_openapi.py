"""The document is made from declarations, and is what OpenAPI 3.1 says a document is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import pytest
from aiohttp import web
from openapi_spec_validator import validate
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.api.http.openapi import describe
from parachuted.api.http.route import (
    ApiCall,
    AppRequestModel,
    MediaBody,
    Path,
    RequestModel,
    Route,
    Whole,
)
from tests.api.calls import get
from tests.api.test_app import ROUTES
from tests.stories.daemon_rig import Live


class FindQuery(RequestModel):
    """What to find."""

    q: str
    in_: Annotated[str, Field(alias="in", description="Where to look.")] = "title"
    tag: Annotated[list[str], Field(default_factory=list)]
    limit: Annotated[Whole, Field(ge=1, le=9)] | None = None


class NoteBody(AppRequestModel):
    """A note."""

    file_path: Path
    parts: tuple[str, ...] = ()


class Found(TypedDict):
    """What was found."""

    count: int


async def nothing(_call: ApiCall) -> web.Response:
    raise AssertionError


ROUTES_HERE = [
    Route(
        method="GET",
        path="/api/find",
        module="vault",
        capability="read",
        handle=nothing,
        query=FindQuery,
        summary="Find.",
        answers={200: Found},
    ),
    Route(
        method="PUT",
        path="/api/notes/{path:.+}",
        module="vault",
        capability="write",
        handle=nothing,
        body=NoteBody,
        summary="Write.",
        answers={200: (list[Found], MediaBody(type="text/markdown", says="As it is.")), 204: None},
        names={"path": "A note."},
    ),
    Route(
        method="GET",
        path="/api/runs/{id:[0-9]{4}}",
        module="curator",
        capability=None,
        handle=nothing,
        summary="One.",
        answers={200: Found},
    ),
]


@pytest.fixture(scope="module")
def document() -> dict:
    return describe(ROUTES_HERE)


def test_it_is_valid(document):
    validate(document)


def test_the_fields_of_a_query_are_parameters_by_the_names_that_callers_use(document):
    parameters = {one["name"]: one for one in document["paths"]["/api/find"]["get"]["parameters"]}

    assert list(parameters) == ["q", "in", "tag", "limit"]
    assert [one["required"] for one in parameters.values()] == [True, False, False, False]
    assert parameters["in"]["description"] == "Where to look."
    assert parameters["tag"]["schema"] == {"type": "array", "items": {"type": "string"}}
    assert (parameters["tag"]["style"], parameters["tag"]["explode"]) == ("form", True)
    assert parameters["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 9}


def test_a_name_in_the_path_is_a_parameter_whatever_pattern_it_has(document):
    note, run = (
        document["paths"]["/api/notes/{path}"]["put"],
        document["paths"]["/api/runs/{id}"]["get"],
    )

    assert [
        (one["name"], one["in"], one["required"]) for one in note["parameters"] + run["parameters"]
    ] == [("path", "path", True), ("id", "path", True)]
    assert (
        note["parameters"][0]["description"]
        == "A note. It may hold slashes, as they are or as `%2F`."
    )


def test_a_body_is_a_named_schema_that_says_whether_other_names_are_let_go(document):
    body = document["paths"]["/api/notes/{path}"]["put"]["requestBody"]

    assert body == {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NoteBody"}}},
    }
    schema = document["components"]["schemas"]["NoteBody"]
    assert list(schema["properties"]) == ["file_path", "parts"]
    assert schema["required"] == ["file_path"]
    assert "additionalProperties" not in schema


def test_an_answer_may_come_in_several_ways_and_one_without_a_body(document):
    answers = document["paths"]["/api/notes/{path}"]["put"]["responses"]

    assert set(answers["200"]["content"]) == {"application/json", "text/markdown"}
    assert answers["204"] == {"description": "No Content"}


def test_a_call_says_who_may_make_it(document):
    write, one = (
        document["paths"]["/api/notes/{path}"]["put"],
        document["paths"]["/api/runs/{id}"]["get"],
    )

    assert (write["x-module"], write["x-capability"], write["security"]) == (
        "vault",
        "write",
        [{"bearer": []}, {"api_key": []}],
    )
    assert (one["x-module"], one["x-capability"], one["security"]) == ("curator", None, [])


def test_every_error_has_the_one_shape(document):
    for said in document["components"]["responses"].values():
        assert said["content"] == {
            "application/json": {"schema": {"$ref": "#/components/schemas/Error"}}
        }
    assert {"400", "401", "403", "404", "413", "429", "500"} <= set(
        document["paths"]["/api/find"]["get"]["responses"]
    )
    assert {"409", "422", "507"} <= set(document["paths"]["/api/notes/{path}"]["put"]["responses"])


async def test_the_daemons_own_is_valid_and_has_every_route(live: Live):
    async with live() as daemon_rig:
        document = await get(daemon_rig, "/api/openapi.json")

    validate(document)
    reported = {
        f"{method.upper()} {path}" for path, calls in document["paths"].items() for method in calls
    }
    assert reported == ROUTES
    names = [call["operationId"] for calls in document["paths"].values() for call in calls.values()]
    assert len(names) == len(set(names))
    assert [
        name for name in words(document["components"]) if name in {"ge", "le", "gt", "lt", "title"}
    ] == []


def words(part: object) -> Iterator[str]:
    """The words of JSON Schema that are used: names of properties are none."""
    for name, inner in (
        part.items()
        if isinstance(part, dict)
        else enumerate(part)
        if isinstance(part, list)
        else ()
    ):
        if isinstance(name, str) and not isinstance(inner, dict):
            yield name
        yield from words(inner)


async def test_headers_that_are_read_and_bodies_that_are_taken_as_they_are_are_said(live: Live):
    async with live() as daemon_rig:
        paths = (await get(daemon_rig, "/api/openapi.json"))["paths"]

    def headers(path: str, method: str) -> set[str]:
        return {one["name"] for one in paths[path][method]["parameters"] if one["in"] == "header"}

    assert headers("/api/notes/{path}", "patch") == {"If-Match"}
    assert headers("/api/notes/{path}", "put") == {"If-Match", "If-None-Match"}
    assert headers("/api/files/{path}", "get") == {"If-None-Match", "Range", "If-Range"}
    assert headers("/api/files/{path}", "put") == {
        "If-Match",
        "If-None-Match",
        "X-Content-SHA256",
        "Content-Digest",
    }
    assert headers("/api/events", "get") == {"Last-Event-ID"}
    upload = paths["/api/files/{path}"]["put"]["requestBody"]
    assert upload == {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
    assert set(paths["/api/notes/{path}"]["put"]["requestBody"]["content"]) == {
        "application/json",
        "text/markdown",
    }
    assert {"200", "201", "409"} <= set(paths["/api/files/{path}"]["put"]["responses"])
    assert {"206", "416"} <= set(paths["/api/files/{path}"]["get"]["responses"])
    assert "ETag" in paths["/api/notes/{path}"]["get"]["responses"]["200"]["headers"]
