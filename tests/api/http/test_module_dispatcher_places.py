"""Module calls at other places than one word below /api: the rest of a path, what the core keeps
for one module, and callers that cannot be changed.
"""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from tests.api.calls import call, code, error, get, key_of, refused
from tests.api.routes.test_modules import install
from tests.stories.daemon_rig import Live, save

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


@pytest.fixture(params=["trusted", "untrusted"])
def trust(request: pytest.FixtureRequest) -> str:
    """In which way a module runs."""
    return str(request.param)


def daily(tmp_path: Path, name: str = "daily") -> Path:
    save(tmp_path / f"{name}/manifest.yaml", f"name: {name}\nversion: 0.1.0\nmodule: module.py\n")
    save(tmp_path / f"{name}/module.py", DAILY)
    return tmp_path / name


async def test_a_module_answers_where_the_core_keeps_a_place_for_it(
    live: Live, tmp_path: Path, trust: str
):
    async with live() as daemon_rig:
        before = await refused(daemon_rig, "GET", "/api/modules/daily/agents")
        reported = await install(daemon_rig, daily(tmp_path), trust)
        assert reported["status"] == "running", reported["problem"]

        assert before[0] == 501
        assert "kept for the module daily" in before[1]
        assert await get(daemon_rig, "/api/modules/daily/agents") == {"agents": []}
        assert await get(daemon_rig, "/api/modules/daily/agents/a%20b") == {"name": "a b"}
        assert await error(daemon_rig, "GET", "/api/daily/agents") == 404
        assert await error(daemon_rig, "GET", "/api/modules/daily/agents/a/b") == 404
        assert await error(daemon_rig, "DELETE", "/api/modules/daily/agents/a") == 405
        paths = (await get(daemon_rig, "/api/openapi.json"))["paths"]
        assert {"/api/modules/daily/agents", "/api/daily/entities/{id}"} <= paths.keys()

        key = key_of(daemon_rig, "daily:read")
        assert await code(daemon_rig, "GET", "/api/modules/daily/agents", headers=key) == 200
        assert await error(daemon_rig, "GET", "/api/modules", headers=key) == 403
        other = key_of(daemon_rig, "brain:read", "vault:read")
        assert await error(daemon_rig, "GET", "/api/modules/daily/agents", headers=other) == 403
        assert await error(daemon_rig, "GET", "/api/import", headers=other) == 403


async def test_no_other_module_gets_that_place(live: Live, tmp_path: Path, trust: str):
    async with live() as daemon_rig:
        reported = await install(daemon_rig, daily(tmp_path, "evil"), trust)

        assert reported["status"] == "failed"
        assert "/api/modules/daily/agents is not kept for the module evil" in reported["problem"]
        assert await error(daemon_rig, "GET", "/api/modules/daily/agents") == 501


@pytest.mark.parametrize(
    ("path", "module"), [("/api/bots/status", "bots"), ("/api/import", "chat")]
)
async def test_what_is_kept_for_a_module_says_so_while_there_is_none(
    live: Live, path: str, module: str
):
    async with live() as daemon_rig:
        status, message = await refused(daemon_rig, "GET", path)

    assert status == 501
    assert f"is kept for the module {module}, and no module that runs serves it" in message


async def test_the_rest_of_a_path_keeps_its_slashes_and_never_climbs(
    live: Live, tmp_path: Path, trust: str
):
    async with live() as daemon_rig:
        await install(daemon_rig, daily(tmp_path), trust)
        url = "/api/daily/entities/"

        _, reported = await call(daemon_rig, "PUT", f"{url}people/Kevin%20M%C3%BCller%2Fa", json={})
        assert reported["id"] == "people/Kevin Müller/a"
        async with aiohttp.ClientSession() as session:
            for climbs in ("../a", "a/%2E%2E/b", "a%2F..%2Fb", "%2Fetc%2Fpasswd", "a//b", "a/"):
                sent = URL(daemon_rig.url + url + climbs, encoded=True)
                async with session.put(sent, json={}) as answer:
                    assert answer.status in {403, 404}, climbs


async def test_a_tolerant_route_takes_both_spellings_and_ignores_what_it_does_not_know(
    live: Live, tmp_path: Path, trust: str
):
    async with live() as daemon_rig:
        await install(daemon_rig, daily(tmp_path), trust)
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
        assert await error(daemon_rig, "PUT", url, json={"entityType": 5}) == 422
        assert await get(daemon_rig, "/api/daily/rest?aName=1&other=2") == {
            "a_name": "1",
            "other": "2",
        }
