from __future__ import annotations

from urllib.parse import quote

import pytest

from parachuted.api.routes.note_changes import refuse_programs
from parachuted.errors import EditRefusedError
from parachuted.vault import VaultPath
from tests.api.calls import call, expect, key_of
from tests.stories.daemon_rig import DaemonRig, save

PROGRAMS = (
    *("Modules/m/module.py", "modules/m/x", "MODULES", "Mod\u200bules/x", "\uff2dodules/x"),
    *("Modules./x", "Suggestions\u3164/x.md", "SUGGES~1/x.md"),
)


@pytest.mark.parametrize("path", PROGRAMS)
def test_a_program_is_one_however_a_lenient_disk_spells_it(path):
    with pytest.raises(EditRefusedError):
        refuse_programs(VaultPath(path))


@pytest.mark.parametrize(
    "path", ["Projects/Modules/x.md", "Modules.md", "My Modules/x", "Daily/a.md"]
)
def test_notes_are_none(path):
    refuse_programs(VaultPath(path))


async def test_only_an_admin_writes_a_module(vault, daemon_rig: DaemonRig):
    save(vault / "Modules/m/module.py", "code\n")
    save(vault / "Modules/m/README.md", "words\n")
    (vault / "way").symlink_to("Modules")
    writer, admin = (
        {"headers": key_of(daemon_rig, words)}
        for words in ("vault:read,write", "vault:read,write,admin")
    )
    for path in ("Modules/m/module.py", "way/m/module.py", "Modules/new.py"):
        body = {"path": path, "content": "theirs\n"}
        await expect(daemon_rig, 403, "PUT", "/api/write", json=body, **writer)
        await expect(daemon_rig, 403, "PUT", f"/api/files/{path}", data=b"theirs", **writer)
    for method in ("PUT", "DELETE"):
        where = "/api/notes/Modules/m/README.md"
        await expect(daemon_rig, 403, method, where, data=b"theirs", **writer)
    assert (vault / "Modules/m/module.py").read_text() == "code\n"
    body = {"path": "Modules/m/module.py", "content": "ours\n"}
    await expect(daemon_rig, 200, "PUT", "/api/write", json=body, **admin)
    assert (vault / "Modules/m/README.md").read_text() == "words\n"


SPELLINGS = (
    *("{}.", "{} ", "{}\ufe0f", "{}\u034f", "\u3164{}", "\u115f{}", "\u200b{}"),
    "{}::$INDEX_ALLOCATION",
)


async def test_no_door_writes_a_programs_folder_however_a_lenient_disk_spells_it(
    vault, daemon_rig: DaemonRig
):
    """On ext4 these are folders of their own; on HFS+, exFAT and SMB they are the folder of modules
    and the one of suggestions.
    """
    save(vault / "a.md", "mine\n")
    names = ("Modules", "suggestions")
    folders = [spelled.format(name) for spelled in SPELLINGS for name in names]
    writer = key_of(daemon_rig, "vault:read,write")
    for folder in (*folders, "\u200b.claude", "SUGGES~1", "GIT~1"):
        path, place = f"{folder}/x.md", quote(f"{folder}/x.md")
        written = {"path": path, "content": "x"}
        answers = [
            await call(daemon_rig, method, where, headers=writer, **sent)
            for method, where, sent in (
                ("PUT", "/api/write", {"json": written}),
                ("PUT", f"/api/files/{place}", {"data": b"x"}),
                ("PUT", f"/api/notes/{place}", {"json": {"content": "x"}}),
                ("POST", "/api/notes/a.md/move", {"json": {"to": path}}),
                ("POST", "/api/suggestions", {"json": {"action": "create", **written}}),
                ("POST", "/api/sync/push", {"json": {"files": [written]}}),
            )
        ]
        assert not (vault / folder).exists(), (folder, answers)
        done = [status for status, _ in answers if status < 300]
        assert done in ([], [200]), (folder, answers)  # a push says it of each file

    assert sorted(one.name for one in vault.iterdir() if not one.name.startswith(".")) == ["a.md"]
