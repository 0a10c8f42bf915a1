"""Module calls at other places than one word below /api: the rest of a path, what the core keeps
for one module, and callers that cannot be changed.
"""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from tests.api.calls import call, expect, get, key_of, refused
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


async def test_a_module_answers_where_the_core_keeps_a_place_for_it(
    tmp_path: Path, trust: str, daemon_rig: DaemonRig
):
    before = await refused(daemon_rig, "GET", "/api/modules/daily/agents")
    await run_module(daemon_rig, tmp_path, "daily", DAILY, trust)

    assert before[0] == 501
    assert "kept for the module daily" in before[1]
    assert await get(daemon_rig, "/api/modules/daily/agents") == {"agents": []}
    assert await get(daemon_rig, "/api/modules/daily/agents/a%20b") == {"name": "a b"}
    await expect(daemon_rig, 404, "GET", "/api/daily/agents")
    await expect(daemon_rig, 404, "GET", "/api/modules/daily/agents/a/b")
    await expect(daemon_rig, 405, "DELETE", "/api/modules/daily/agents/a")
    paths = (await get(daemon_rig, "/api/openapi.json"))["paths"]
    assert {"/api/modules/daily/agents", "/api/daily/entities/{id}"} <= paths.keys()

    key = key_of(daemon_rig, "daily:read")
    await expect(daemon_rig, 200, "GET", "/api/modules/daily/agents", headers=key)
    await expect(daemon_rig, 403, "GET", "/api/modules", headers=key)
    other = key_of(daemon_rig, "brain:read", "vault:read")
    await expect(daemon_rig, 403, "GET", "/api/modules/daily/agents", headers=other)
    await expect(daemon_rig, 403, "GET", "/api/import", headers=other)


async def test_no_other_module_gets_that_place(tmp_path: Path, trust: str, daemon_rig: DaemonRig):
    save(tmp_path / "evil/manifest.yaml", "name: evil\nversion: 0.1.0\nmodule: module.py\n")
    save(tmp_path / "evil/module.py", DAILY)
    reported = await install(daemon_rig, tmp_path / "evil", trust)

    assert reported["status"] == "failed"
    assert "/api/modules/daily/agents is not kept for the module evil" in reported["problem"]
    await expect(daemon_rig, 501, "GET", "/api/modules/daily/agents")


@pytest.mark.parametrize(
    ("path", "module"), [("/api/bots/status", "bots"), ("/api/import", "chat")]
)
async def test_what_is_kept_for_a_module_says_so_while_there_is_none(
    path: str, module: str, daemon_rig: DaemonRig
):
    status, message = await refused(daemon_rig, "GET", path)

    assert status == 501
    assert f"is kept for the module {module}, and no module that runs serves it" in message


async def test_the_rest_of_a_path_keeps_its_slashes_and_never_climbs(
    tmp_path: Path, trust: str, daemon_rig: DaemonRig
):
    await run_module(daemon_rig, tmp_path, "daily", DAILY, trust)
    url = "/api/daily/entities/"

    _, reported = await call(daemon_rig, "PUT", f"{url}people/Kevin%20M%C3%BCller%2Fa", json={})
    assert reported["id"] == "people/Kevin Müller/a"
    async with aiohttp.ClientSession() as session:
        for climbs in ("../a", "a/%2E%2E/b", "a%2F..%2Fb", "%2Fetc%2Fpasswd", "a//b", "a/"):
            sent = URL(daemon_rig.url + url + climbs, encoded=True)
            async with session.put(sent, json={}) as answer:
                assert answer.status in {403, 404}, climbs


async def test_a_tolerant_route_takes_both_spellings_and_ignores_what_it_does_not_know(
    tmp_path: Path, trust: str, daemon_rig: DaemonRig
):
    await run_module(daemon_rig, tmp_path, "daily", DAILY, trust)
    url = "/api/daily/entities/x"

    _, reported = await call(
        daemon_rig,
        "PUT",
        f"{url}?commitMsg=new",
        json={"entityType": "person", "id": "y", "odd": 1},
    )
    assert reported == {"id": "x", "type": "person", "said": "new"}
    _, reported = await call(
        daemon_rig,
        "PUT",
        url,
        json={"entityType": "old", "entity_type": "person", "page": "Two"},
    )
    assert reported["type"] == "person"
    await expect(daemon_rig, 422, "PUT", url, json={"entityType": 5})
    assert await get(daemon_rig, "/api/daily/rest?aName=1&other=2") == {
        "a_name": "1",
        "other": "2",
    }
