"""What the daemon checks from time to time."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

from parachuted.errors import StorageFailedError
from parachuted.followers import HomeUpkeep
from tests.api.calls import get
from tests.stories.daemon_rig import Live, save


async def test_a_deleted_state_folder_is_reported_with_what_to_do(live: Live, home, vault):
    async with live() as daemon_rig:
        (folder,) = (home / "state").iterdir()
        shutil.move(folder / "state.db", home / "moved")
        await daemon_rig.until(
            lambda: "parachute restart" in daemon_rig.daemon.watched.problems.open.get("state", "")
        )
        shutil.move(home / "moved", folder / "state.db")
        await daemon_rig.until(lambda: "state" not in daemon_rig.daemon.watched.problems.open)


async def test_a_damaged_key_file_is_reported_as_soon_as_it_is_saved(live: Live, home):
    async with live() as daemon_rig:
        save(home / "keys.yaml", "keys: [")
        await daemon_rig.until(lambda: "keys" in daemon_rig.daemon.watched.problems.open)
        assert (await get(daemon_rig, "/api/health"))["status"]


def test_uses_of_keys_that_cannot_be_saved_do_not_end_the_daemon(home, caplog):
    def refuse():
        raise StorageFailedError("the disk is full")

    ring = SimpleNamespace(flush=refuse)
    HomeUpkeep(
        home=home, authenticator=SimpleNamespace(ring=ring), hooks=None, problems=None
    ).flush_key_uses()

    assert "were not saved" in caplog.text
