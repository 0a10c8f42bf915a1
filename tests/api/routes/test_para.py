"""Para: what any module has is found by its id alone, by those who may read there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.calls import code, error, get, key_of, refused
from tests.api.routes.test_modules import install
from tests.stories.daemon_rig import Live, save

MODULE = """
from parachuted.errors import NotFoundError
from parachuted.modules import Module, route

class FinderModule(Module):
    async def find_para(self, para_id):
        if para_id == "para:{name}:broken":
            raise RuntimeError("broken")
        if para_id == "para:{name}:odd":
            return {{"para_id": para_id, "url": "https://example.com/"}}
        if para_id == "para:{name}:gone":
            raise NotFoundError("it was removed")
        path = "{folder}/" + para_id.rpartition(":")[2] + ".md"
        if not await self.vault.exists(path):
            return None
        return {{
            "para_id": para_id,
            "module": "somebody-else",
            "type": "person",
            "path": path,
            "title": "Kevin",
            "url": "/api/{name}/entities/kevin",
            "more": 1,
        }}
"""


def finder(tmp_path: Path, name: str, folder: str) -> Path:
    manifest = f"name: {name}\nversion: 0.1.0\nmodule: module.py\n"
    save(tmp_path / f"{name}/manifest.yaml", f"{manifest}permissions: {{read: [{folder}/]}}\n")
    save(tmp_path / f"{name}/module.py", MODULE.format(name=name, folder=folder))
    return tmp_path / name


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_any_module_s_thing_is_found_by_its_id(
    live: Live, vault: Path, tmp_path: Path, trust: str
):
    save(vault / "Brain/kevin.md", "Kevin\n")
    save(vault / "Daily/monday.md", "Monday\n")
    save(vault / "Daily/kevin.md", "Kevin in Daily\n")
    async with live() as daemon_rig:
        for name, folder in (("brain", "Brain"), ("daily", "Daily")):
            reported = await install(daemon_rig, finder(tmp_path, name, folder), trust)
            assert reported["status"] == "running", reported["problem"]

        assert await get(daemon_rig, "/api/para/para:brain:kevin") == {
            "para_id": "para:brain:kevin",
            "module": "brain",
            "type": "person",
            "path": "Brain/kevin.md",
            "title": "Kevin",
            "url": "/api/brain/entities/kevin",
        }
        assert (await get(daemon_rig, "/api/para/para:daily:kevin"))["module"] == "daily"
        assert (await get(daemon_rig, "/api/para/monday"))["path"] == "Daily/monday.md"
        assert await error(daemon_rig, "GET", "/api/para/para:brain:nobody") == 404
        assert await error(daemon_rig, "GET", "/api/para/para:brain:gone") == 404
        for para_id in ("broken", "odd"):
            status, message = await refused(daemon_rig, "GET", f"/api/para/para:brain:{para_id}")
            assert status == 502
            assert "brain could not say" in message
        assert await error(daemon_rig, "GET", f"/api/para/{'x' * 501}") == 400


async def test_a_key_finds_what_it_may_read_and_no_more(live: Live, vault: Path, tmp_path: Path):
    save(vault / "Brain/kevin.md", "Kevin\n")
    async with live() as daemon_rig:
        await install(daemon_rig, finder(tmp_path, "brain", "Brain"), "trusted")
        path = "/api/para/para:brain:"

        own = key_of(daemon_rig, "brain:read", "vault:read")
        assert await code(daemon_rig, "GET", f"{path}kevin", headers=own) == 200
        for scope, status in (("vault:read", 404), ("brain:read", 403), ("system:read", 403)):
            other = key_of(daemon_rig, scope)
            assert await error(daemon_rig, "GET", f"{path}kevin", headers=other) == status
