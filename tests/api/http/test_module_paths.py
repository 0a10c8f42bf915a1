"""What modules serve is in the API's own description while they run, and no longer."""

from __future__ import annotations

from pathlib import Path

from openapi_spec_validator import validate

from tests.api.calls import call, get, post
from tests.api.routes.test_modules import EXAMPLES, install, run_module
from tests.stories.daemon_rig import DaemonRig

BOXED = '''
from collections.abc import AsyncIterator
from pydantic import BaseModel
from parachuted.modules import Module, mcp_tool, route

class Seed(BaseModel):
    name: str
    depth_cm: float = 1.0

def another() -> type[BaseModel]:
    class Seed(BaseModel):
        weight: float
    return Seed

Weighed = another()

class BoxModule(Module):
    @route("GET", "/weights")
    async def weights(self) -> list[Weighed]:
        """Others of that name."""
        return [Weighed(weight=2.5)]

    @route("PUT", "/seeds/{box}")
    async def put(self, box: str, seeds: list[Seed], label: str = ""):
        """Fill a box."""
        return {"box": box, "count": len(seeds)}

    @route("GET", "/seeds")
    async def all(self) -> list[Seed]:
        """All seeds."""
        return [Seed(name="bean")]

    @route("GET", "/told")
    async def told(self) -> AsyncIterator[Seed]:
        """One after the other."""
        yield Seed(name="bean")

    @mcp_tool("box-find")
    async def find(self, seed: Seed) -> str:
        """Find the box of a seed."""
        return seed.name
'''


async def test_routes_and_tools_of_a_module_are_described_while_it_runs(daemon_rig: DaemonRig):
    before = await get(daemon_rig, "/api/openapi.json")
    await install(daemon_rig, EXAMPLES / "daily")
    document = await get(daemon_rig, "/api/openapi.json")
    await post(daemon_rig, "/api/modules/daily/disable")
    after = await get(daemon_rig, "/api/openapi.json")

    validate(document)
    assert after == before
    entries, one = (
        document["paths"]["/api/daily/entries"],
        document["paths"]["/api/daily/entries/{entry_id}"]["get"],
    )
    assert {
        (entry["name"], entry["in"], entry["schema"]["type"])
        for entry in entries["get"]["parameters"]
    } == {("date", "query", "string"), ("limit", "query", "integer")}
    assert [(one["name"], one["in"], one["required"]) for one in one["parameters"]] == [
        ("entry_id", "path", True)
    ]
    body = entries["post"]["requestBody"]
    assert (body["required"], body["content"]["application/json"]["schema"]["required"]) == (
        True,
        ["content"],
    )
    assert (
        entries["post"]["x-module"],
        entries["post"]["x-capability"],
        entries["post"]["tags"],
    ) == ("daily", "write", ["daily"])
    assert (
        "text/event-stream"
        in document["paths"]["/api/daily/query"]["post"]["responses"]["200"]["content"]
    )
    assert {"400", "404", "502", "default"} <= set(entries["get"]["responses"])


async def test_shapes_that_a_module_names_are_described_too_and_calls_as_they_say_are_answered(
    tmp_path: Path, daemon_rig: DaemonRig
):
    await run_module(daemon_rig, tmp_path, "box", BOXED, "untrusted", "mcp_tools: [box-find]\n")
    document = await get(daemon_rig, "/api/openapi.json")
    found = await post(daemon_rig, "/api/modules/box/tools/box-find", {"seed": {"name": "bean"}})
    filled = await call(
        daemon_rig, "PUT", "/api/box/seeds/a%2Fb", json={"seeds": [{"name": "bean"}]}
    )
    answered = await get(daemon_rig, "/api/box/seeds")

    validate(document)
    assert filled == (200, {"box": "a/b", "count": 1})
    put = document["paths"]["/api/box/seeds/{box}"]["put"]
    schema = put["requestBody"]["content"]["application/json"]["schema"]
    assert (set(schema["properties"]), schema["required"]) == ({"seeds", "label"}, ["seeds"])
    named = schema["properties"]["seeds"]["items"]["$ref"].removeprefix("#/components/schemas/")
    assert document["components"]["schemas"][named]["required"] == ["name"]
    tool = document["paths"]["/api/modules/box/tools/box-find"]["post"]
    assert (tool["summary"], found) == ("Find the box of a seed.", {"result": "bean"})
    paths, schemas = document["paths"], document["components"]["schemas"]
    listed = paths["/api/box/seeds"]["get"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]
    assert (listed["type"], answered) == ("array", [{"name": "bean", "depth_cm": 1.0}])
    shape = schemas[listed["items"]["$ref"].rpartition("/")[2]]
    assert (set(shape["properties"]), set(shape["required"])) == ({"name", "depth_cm"}, {"name"})
    weighed = paths["/api/box/weights"]["get"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]["items"]["$ref"]
    assert set(schemas[weighed.rpartition("/")[2]]["properties"]) == {"weight"}
    stream = paths["/api/box/told"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    assert set(stream["x-itemSchema"]["properties"]) == {"name", "depth_cm"}
    result = paths["/api/modules/box/tools/box-find"]["post"]["responses"]["200"]["content"][
        "application/json"
    ]["schema"]
    assert result["properties"]["result"] == {"type": "string"}
