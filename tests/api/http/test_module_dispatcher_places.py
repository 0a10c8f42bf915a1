"""Module calls at other places than one word below /api: the rest of a path, what the core keeps
for one module, and callers that cannot be changed.
"""

from __future__ import annotations

from pathlib import Path

import aiohttp
from yarl import URL

from tests.api.calls import expect, get, key_of
from tests.api.routes.test_modules import install, run_module
from tests.stories.daemon_rig import DaemonRig, save

DAILY = """
from parachuted.modules import Module, route

class DailyModule(Module):
    @route("GET", "/", prefix="/api/modules/daily/agents")
    async def list_agents(self):
        return {"agents": []}

    @route("GET", "/{name}", prefix="/api/modules/daily/agents")
    async def agent(self, name: str):
        return {"name": name}

    @route("PUT", "/entities/{id...}", tolerant=True)
    async def put(self, id: str, entity_type: str = "", commit_msg: str | None = None):
        return {"id": id, "type": entity_type, "said": commit_msg}

    @route("GET", "/rest", tolerant=True)
    async def rest(self, a_name: str, **rest):
        return {"a_name": a_name, **rest}
"""


AGENTS, ENTITIES = "/api/modules/daily/agents", "/api/daily/entities"


async def test_a_module_answers_where_the_core_keeps_a_place_for_it_and_below_it(
    tmp_path: Path, trust: str, daemon_rig: DaemonRig
):
    await expect(daemon_rig, 501, "GET", AGENTS, says="kept for the module daily")
    await run_module(daemon_rig, tmp_path, "daily", DAILY, trust)

    assert await get(daemon_rig, AGENTS) == {"agents": []}
    assert await get(daemon_rig, f"{AGENTS}/a%20b") == {"name": "a b"}
    await expect(daemon_rig, 404, "GET", "/api/daily/agents")
    await expect(daemon_rig, 404, "GET", f"{AGENTS}/a/b")
    await expect(daemon_rig, 405, "DELETE", f"{AGENTS}/a")
    paths = (await get(daemon_rig, "/api/openapi.json"))["paths"]
    assert {AGENTS, f"{ENTITIES}/{{id}}"} <= paths.keys()

    key, other = key_of(daemon_rig, "daily:read"), key_of(daemon_rig, "brain:read", "vault:read")
    for headers, path, status in (
        (key, AGENTS, 200),
        (key, "/api/modules", 403),
        (other, AGENTS, 403),
        (other, "/api/import", 403),
    ):
        await expect(daemon_rig, status, "GET", path, headers=headers)

    url = f"{ENTITIES}/people/Kevin%20M%C3%BCller%2Fa"  # the rest of a path keeps its slashes
    reported = await expect(daemon_rig, 200, "PUT", url, json={})
    assert reported["id"] == "people/Kevin Müller/a"
    async with aiohttp.ClientSession() as session:
        for climbs in ("../a", "a/%2E%2E/b", "a%2F..%2Fb", "%2Fetc%2Fpasswd", "a//b", "a/"):
            sent = URL(f"{daemon_rig.url}{ENTITIES}/{climbs}", encoded=True)
            async with session.put(sent, json={}) as answer:
                assert answer.status in {403, 404}, climbs

    url = f"{ENTITIES}/x"  # a tolerant route takes both spellings, and ignores others
    body = {"entityType": "person", "id": "y", "odd": 1}
    reported = await expect(daemon_rig, 200, "PUT", f"{url}?commitMsg=new", json=body)
    assert reported == {"id": "x", "type": "person", "said": "new"}
    body = {"entityType": "old", "entity_type": "person", "page": "Two"}
    assert (await expect(daemon_rig, 200, "PUT", url, json=body))["type"] == "person"
    await expect(daemon_rig, 422, "PUT", url, json={"entityType": 5})
    rest = await get(daemon_rig, "/api/daily/rest?aName=1&other=2")
    assert rest == {"a_name": "1", "other": "2"}


async def test_no_other_module_gets_that_place(tmp_path: Path, trust: str, daemon_rig: DaemonRig):
    save(tmp_path / "evil/manifest.yaml", "name: evil\nversion: 0.1.0\nmodule: module.py\n")
    save(tmp_path / "evil/module.py", DAILY)
    reported = await install(daemon_rig, tmp_path / "evil", trust)

    assert reported["status"] == "failed"
    assert f"{AGENTS} is not kept for the module evil" in reported["problem"]
    for path, module in (
        (AGENTS, "daily"),
        ("/api/bots/status", "bots"),
        ("/api/import", "chat"),
    ):
        says = f"is kept for the module {module}, and no module that runs serves it"
        await expect(daemon_rig, 501, "GET", path, says=says)
