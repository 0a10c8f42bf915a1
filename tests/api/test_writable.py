from __future__ import annotations

import pytest

from parachuted.api.writable import is_program, refuse_programs
from parachuted.errors import EditRefusedError
from parachuted.vault import VaultPath
from tests.api.calls import call, key_of, refused
from tests.stories.life import Live, save

PROGRAMS = ("Modules/m/module.py", "modules/m/x", "MODULES", "Mod\u200bules/x", "\uff2dodules/x")


@pytest.mark.parametrize("path", PROGRAMS)
def test_a_program_is_one_however_a_lenient_disk_spells_it(path):
    assert is_program(VaultPath(path))
    with pytest.raises(EditRefusedError):
        refuse_programs(VaultPath(path))


@pytest.mark.parametrize("path", ["Projects/Modules/x.md", "Modules.md", "My Modules/x", "Daily/a.md"])
def test_notes_are_none(path):
    refuse_programs(VaultPath(path))


async def test_only_an_admin_writes_a_module(live: Live, vault):
    save(vault / "Modules/m/module.py", "code\n")
    (vault / "way").symlink_to("Modules")
    async with live() as life:
        writer, admin = key_of(life, "vault:read,write"), key_of(life, "vault:read,write,admin")
        for path in ("Modules/m/module.py", "way/m/module.py", "Modules/new.py"):
            body = {"path": path, "content": "theirs\n"}
            assert (await refused(life, "PUT", "/api/write", json=body, headers=writer))[0] == 403
            assert (await refused(life, "PUT", f"/api/files/{path}", data=b"theirs", headers=writer))[0] == 403
        assert (vault / "Modules/m/module.py").read_text() == "code\n"
        status, _ = await call(life, "PUT", "/api/write", json={"path": "Modules/m/module.py", "content": "ours\n"}, headers=admin)

    assert status == 200
