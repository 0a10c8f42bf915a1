"""What modules serve is in the API's own description while they run, and no longer."""

from __future__ import annotations

from pathlib import Path

from openapi_spec_validator import validate

from tests.api.calls import expect, get, post
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


async def test_routes_tools_and_shapes_of_modules_are_described_while_they_run(
    tmp_path: Path, daemon_rig: DaemonRig
):
    before = await get(daemon_rig, "/api/openapi.json")
    await install(daemon_rig, EXAMPLES / "daily")
    await run_module(daemon_rig, tmp_path, "box", BOXED, "untrusted", "mcp_tools: [box-find]\n")
    document = await get(daemon_rig, "/api/openapi.json")
    tool = "/api/modules/box/tools/box-find"
    found = await post(daemon_rig, tool, {"seed": {"name": "bean"}})
    sent = {"seeds": [{"name": "bean"}]}
    filled = await expect(daemon_rig, 200, "PUT", "/api/box/seeds/a%2Fb", json=sent)
    answered = await get(daemon_rig, "/api/box/seeds")
    for name in ("daily", "box"):
        await post(daemon_rig, f"/api/modules/{name}/disable")
    after = await get(daemon_rig, "/api/openapi.json")

    validate(document)
    assert after == before
    paths, schemas = document["paths"], document["components"]["schemas"]

    def answer(path: str, method: str = "get", kind: str = "application/json") -> dict:
        return paths[path][method]["responses"]["200"]["content"][kind]

    def shape(schema: dict) -> dict:
        return schemas[schema["$ref"].rpartition("/")[2]]

    entries = paths["/api/daily/entries"]
    parameters = entries["get"]["parameters"]
    assert {(one["name"], one["in"], one["schema"]["type"]) for one in parameters} == {
        ("date", "query", "string"),
        ("limit", "query", "integer"),
    }
    (one,) = paths["/api/daily/entries/{entry_id}"]["get"]["parameters"]
    assert (one["name"], one["in"], one["required"]) == ("entry_id", "path", True)
    body = entries["post"]["requestBody"]
    required = body["content"]["application/json"]["schema"]["required"]
    assert (body["required"], required) == (True, ["content"])
    of_daily = {"x-module": "daily", "x-capability": "write", "tags": ["daily"]}
    assert entries["post"] == entries["post"] | of_daily
    assert answer("/api/daily/query", "post", "text/event-stream")
    assert {"400", "404", "502", "default"} <= set(entries["get"]["responses"])

    assert filled == {"box": "a/b", "count": 1}
    put = paths["/api/box/seeds/{box}"]["put"]["requestBody"]["content"]["application/json"]
    assert (set(put["schema"]["properties"]), put["schema"]["required"]) == (
        {"seeds", "label"},
        ["seeds"],
    )
    assert shape(put["schema"]["properties"]["seeds"]["items"])["required"] == ["name"]
    summary = paths[tool]["post"]["summary"]
    assert (summary, found) == ("Find the box of a seed.", {"result": "bean"})
    listed = answer("/api/box/seeds")["schema"]
    assert (listed["type"], answered) == ("array", [{"name": "bean", "depth_cm": 1.0}])
    seed = shape(listed["items"])
    assert (set(seed["properties"]), seed["required"]) == ({"name", "depth_cm"}, ["name"])
    assert set(shape(answer("/api/box/weights")["schema"]["items"])["properties"]) == {"weight"}
    stream = answer("/api/box/told", kind="text/event-stream")["x-itemSchema"]
    assert set(stream["properties"]) == {"name", "depth_cm"}
    assert answer(tool, "post")["schema"]["properties"]["result"] == {"type": "string"}
