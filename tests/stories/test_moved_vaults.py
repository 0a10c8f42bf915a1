"""Moved vaults: what was done to a vault is known wherever the vault and the home are, and after an
upgrade.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from parachuted.errors import DaemonError
from parachuted.home_files.vault_state import state_folder
from tests.stories.daemon_rig import note, running_daemon, save

GARDEN = "Projects/garden/AGENTS.md"


async def _one_run(home: Path, vault: Path) -> tuple[str, bytes]:
    """A vault with one run in its past; that run, and the note as it was before."""
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / GARDEN, note("Garden", focus="- dig"))
    async with running_daemon(vault, home) as daemon_rig:
        await daemon_rig.settled()
        before = (vault / "AGENTS.md").read_bytes()
        save(vault / GARDEN, note("Garden", focus="- sow"))
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        await daemon_rig.settled()
        return str(daemon_rig.reported("run.finished")[0]["run"]), before


def _as_an_earlier_version_left_it(home: Path, vault: Path) -> None:
    (folder,) = (home / "state").iterdir()
    (folder / "vault.json").unlink()
    folder.rename(home / "state" / hashlib.sha256(os.fsencode(vault.resolve())).hexdigest()[:16])
    for file in (vault / ".parachute").iterdir():
        if file.is_file():
            file.unlink()


@pytest.mark.parametrize(
    "what", ["moved", "upgraded", "upgraded, then moved", "moved to another user with the home"]
)
async def test_runs_history_and_undo_are_there(home, vault, tmp_path, what):
    run, before = await _one_run(home, vault)
    if what.startswith("upgraded"):
        _as_an_earlier_version_left_it(home, vault)
    if what == "upgraded, then moved":
        state_folder(home, vault)
    if "moved" in what:
        vault = vault.rename(tmp_path / "new place")
    if "home" in what:
        home = home.rename(tmp_path / "new home")

    async with running_daemon(vault, home) as daemon_rig:
        await daemon_rig.settled()
        assert daemon_rig.reported("file.") == daemon_rig.reported("run.") == []
        assert [one["id"] for one in daemon_rig.daemon.watched.history.runs(limit=9)] == [run]
        assert len(list((home / "state").iterdir())) == 1
        await daemon_rig.daemon.vault.undo.undo(run)
        assert (vault / "AGENTS.md").read_bytes() == before
        assert daemon_rig.daemon.watched.problems.open == {}


async def test_a_copy_does_not_start_on_the_originals_state_which_goes_on(home, vault, tmp_path):
    run, _before = await _one_run(home, vault)
    shutil.copytree(vault, tmp_path / "copy")
    with pytest.raises(DaemonError, match="Is it a copy"):
        async with running_daemon(tmp_path / "copy", home):
            pass
    async with running_daemon(vault, home) as daemon_rig:
        assert [one["id"] for one in daemon_rig.daemon.watched.history.runs(limit=9)] == [run]
