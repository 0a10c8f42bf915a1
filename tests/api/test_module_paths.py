"""What modules serve is in the API's own description while they run, and no longer."""

from __future__ import annotations

from pathlib import Path

from openapi_spec_validator import validate

from tests.api.calls import call, get, post
from tests.api.test_modules import EXAMPLES, install
from tests.stories.life import Live, save

BOXED = '''
from pydantic import BaseModel
from parachuted.modules import Module, mcp_tool, route

class Seed(BaseModel):
    name: str
    depth_cm: float = 1.0

class BoxModule(Module):
    @route("PUT", "/seeds/{box}")
    async def put(self, box: str, seeds: list[Seed], label: str = ""):
        """Fill a box."""
        return {"box": box, "count": len(seeds)}

    @mcp_tool("box-find")
    async def find(self, seed: Seed) -> str:
        """Find the box of a seed."""
        return seed.name
'''


async def test_routes_and_tools_of_a_module_are_described_while_it_runs(live: Live):
    async with live() as life:
        before = await get(life, "/api/openapi.json")
        await install(life, EXAMPLES / "daily")
        document = await get(life, "/api/openapi.json")
        await post(life, "/api/modules/daily/disable")
        after = await get(life, "/api/openapi.json")

    validate(document)
    assert after == before
    entries, one = document["paths"]["/api/daily/entries"], document["paths"]["/api/daily/entries/{entry_id}"]["get"]
    assert {(one["name"], one["in"], one["schema"]["type"]) for one in entries["get"]["parameters"]} == {
        ("date", "query", "string"),
        ("limit", "query", "integer"),
    }
    assert [(one["name"], one["in"], one["required"]) for one in one["parameters"]] == [("entry_id", "path", True)]
    body = entries["post"]["requestBody"]
    assert (body["required"], body["content"]["application/json"]["schema"]["required"]) == (True, ["content"])
    assert (entries["post"]["x-module"], entries["post"]["x-capability"], entries["post"]["tags"]) == ("daily", "write", ["daily"])
    assert "text/event-stream" in document["paths"]["/api/daily/query"]["post"]["responses"]["200"]["content"]
    assert {"400", "404", "502", "default"} <= set(entries["get"]["responses"])


async def test_shapes_that_a_module_names_are_described_too_and_calls_as_they_say_are_answered(live: Live, tmp_path: Path):
    save(tmp_path / "box/manifest.yaml", "name: box\nversion: 0.1.0\nmodule: module.py\n")
    save(tmp_path / "box/module.py", BOXED)
    async with live() as life:
        await install(life, tmp_path / "box", "untrusted")
        document = await get(life, "/api/openapi.json")
        found = await post(life, "/api/modules/box/tools/box-find", {"seed": {"name": "bean"}})
        filled = await call(life, "PUT", "/api/box/seeds/a%2Fb", json={"seeds": [{"name": "bean"}]})

    validate(document)
    assert filled == (200, {"box": "a/b", "count": 1})
    put = document["paths"]["/api/box/seeds/{box}"]["put"]
    schema = put["requestBody"]["content"]["application/json"]["schema"]
    assert (set(schema["properties"]), schema["required"]) == ({"seeds", "label"}, ["seeds"])
    assert schema["properties"]["seeds"]["items"] == {"$ref": "#/components/schemas/box.Seed"}
    assert document["components"]["schemas"]["box.Seed"]["required"] == ["name"]
    tool = document["paths"]["/api/modules/box/tools/box-find"]["post"]
    assert (tool["summary"], found) == ("Find the box of a seed.", {"result": "bean"})
