"""The daemon's own document is valid OpenAPI 3.1; docs/reference/api.md has what it says."""

from __future__ import annotations

from collections.abc import Iterator

from openapi_spec_validator import validate

from tests.api.calls import get
from tests.api.test_app import ROUTES
from tests.stories.daemon_rig import DaemonRig


async def test_the_daemons_own_is_valid_and_has_every_route(daemon_rig: DaemonRig):
    document = await get(daemon_rig, "/api/openapi.json")

    validate(document)
    reported = {
        f"{method.upper()} {path}" for path, calls in document["paths"].items() for method in calls
    }
    assert reported == ROUTES
    calls = [call for calls in document["paths"].values() for call in calls.values()]
    names = [call["operationId"] for call in calls]
    assert len(names) == len(set(names))
    for call in calls:
        is_open = call["x-capability"] is None
        assert call["security"] == ([] if is_open else [{"bearer": []}, {"api_key": []}]), call
    for said in document["components"]["responses"].values():
        schema = said["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/Error"}
    parameters = [parameter for call in calls for parameter in call.get("parameters", ())]
    assert all(parameter["required"] for parameter in parameters if parameter["in"] == "path")
    lists = [parameter for parameter in parameters if parameter["schema"].get("type") == "array"]
    assert {(item["style"], item["explode"]) for item in lists} == {("form", True)}
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


async def test_headers_that_are_read_and_raw_bodies_are_described(daemon_rig: DaemonRig):
    paths = (await get(daemon_rig, "/api/openapi.json"))["paths"]

    def headers(path: str, method: str) -> set[str]:
        return {one["name"] for one in paths[path][method]["parameters"] if one["in"] == "header"}

    assert headers("/api/notes/{path}", "patch") == {"If-Match"}
    assert headers("/api/notes/{path}", "put") == {"If-Match", "If-None-Match"}
    assert headers("/api/files/{path}", "get") == {"If-None-Match", "Range", "If-Range"}
    assert headers("/api/files/{path}", "put") == {"If-Match", "If-None-Match"}
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
