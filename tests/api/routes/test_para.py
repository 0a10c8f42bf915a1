"""Para: what any module has is found by its id alone, by those who may read there."""

from __future__ import annotations

from pathlib import Path

from tests.api.calls import expect, get, key_of
from tests.api.routes.test_modules import run_module
from tests.stories.daemon_rig import DaemonRig, save

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


async def install(daemon_rig: DaemonRig, folder: Path, name: str, reads: str, trust: str) -> None:
    code = MODULE.format(name=name, folder=reads)
    await run_module(daemon_rig, folder, name, code, trust, f"permissions: {{read: [{reads}/]}}\n")


async def test_any_module_s_thing_is_found_by_its_id_where_the_key_may_read(
    vault: Path, tmp_path: Path, trust: str, daemon_rig: DaemonRig
):
    save(vault / "Brain/kevin.md", "Kevin\n")
    save(vault / "Daily/monday.md", "Monday\n")
    save(vault / "Daily/kevin.md", "Kevin in Daily\n")
    for name, folder in (("brain", "Brain"), ("daily", "Daily")):
        await install(daemon_rig, tmp_path, name, folder, trust)

    kevin = "/api/para/para:brain:kevin"
    assert await get(daemon_rig, kevin) == {
        "para_id": "para:brain:kevin",
        "module": "brain",
        "type": "person",
        "path": "Brain/kevin.md",
        "title": "Kevin",
        "url": "/api/brain/entities/kevin",
    }
    assert (await get(daemon_rig, "/api/para/para:daily:kevin"))["module"] == "daily"
    assert (await get(daemon_rig, "/api/para/monday"))["path"] == "Daily/monday.md"
    for para_id, status, says in (
        ("para:brain:nobody", 404, ""),
        ("para:brain:gone", 404, ""),
        ("para:brain:broken", 502, "brain could not say"),
        ("para:brain:odd", 502, "brain could not say"),
        ("x" * 501, 400, ""),
    ):
        await expect(daemon_rig, status, "GET", f"/api/para/{para_id}", says=says)
    for scopes, status in (
        (("brain:read", "vault:read"), 200),
        (("vault:read",), 404),
        (("brain:read",), 403),
        (("system:read",), 403),
    ):
        await expect(daemon_rig, status, "GET", kevin, headers=key_of(daemon_rig, *scopes))
