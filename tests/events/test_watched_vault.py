"""What a start waits for: the vault locked, known and watched, before the rest of the daemon is
loaded.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from parachuted.config import load_settings
from parachuted.events import Change, ChangeListeners
from parachuted.events.watched_vault import WatchedVault
from parachuted.processes.presence import running_daemon
from parachuted.state import open_state
from parachuted.vault import printable
from tests.stories.daemon_rig import save


class Loader:
    """Stands for the rest of the daemon.

    `announced`: whether the daemon was announced when this was loaded.
    """

    def __init__(self, watched: WatchedVault) -> None:
        self.watched = watched
        self.announced: list[bool] = []
        self.recorded: list[str] = []

    async def load(self) -> ChangeListeners:
        self.announced.append(running_daemon(str(self.watched.home)) is not None)
        return ChangeListeners(record=self._record, tell=lambda _change: None)

    async def _record(self, changes: Sequence[Change]) -> Callable[[], None]:
        self.recorded += [printable(change.path) for change in changes]
        return lambda: None


def open_vault(vault: Path, home: Path) -> Loader:
    return Loader(WatchedVault(load_settings(home, {}, {"vault": str(vault), "port": 0}), home))


async def make_known(vault: Path, home: Path) -> None:
    """An earlier daemon looks through the vault."""
    save(vault / "a.md", "a\n")
    first = open_vault(vault, home)
    await first.watched.begin(first.load)
    assert (first.announced, first.watched.is_first_contact) == ([False], True)
    assert running_daemon(str(home)) is None  # not announced before its baseline
    await first.watched.detector.save()
    first.watched.state.table("control").put("baseline", {})
    await first.watched.close()


async def test_a_known_vault_is_announced_before_the_rest_is_loaded(vault, home):
    await make_known(vault, home)
    loader = open_vault(vault, home)
    await loader.watched.begin(loader.load)

    record = running_daemon(str(home))
    assert (loader.announced, loader.recorded) == ([], [])
    assert record is not None
    assert record["port"] == loader.watched.port

    await loader.watched.load()
    await loader.watched.load()
    assert (loader.announced, loader.recorded) == ([True], [])
    await loader.watched.close()
    assert running_daemon(str(home)) is None


async def test_what_was_edited_while_no_daemon_ran_is_recorded_first(vault, home):
    await make_known(vault, home)
    save(vault / "a.md", "changed\n")
    loader = open_vault(vault, home)
    await loader.watched.begin(loader.load)

    assert (loader.announced, loader.recorded) == ([False], ["a.md"])
    assert running_daemon(str(home)) is not None
    await loader.watched.close()


async def test_a_task_that_the_last_life_left_half_done_is_settled_first(vault, home):
    await make_known(vault, home)
    (state,) = (home / "state").iterdir()
    left = open_state(state / "state.db")
    left.table("curator_tasks").put("t-1", {"state": "running"})
    left.close()
    loader = open_vault(vault, home)
    await loader.watched.begin(loader.load)

    assert loader.announced == [False]
    await loader.watched.close()


def test_what_a_start_waits_for_imports_no_room_that_answers():
    rooms = (
        "aiohttp",
        "docker",
        "parachuted.agents",
        "parachuted.api",
        "parachuted.modules",
        "parachuted.search",
        "parachuted.tools",
    )
    code = (
        "import sys, parachuted.cli.daemon, parachuted.cli.foreground; print([name for name "
        f"in {rooms} if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout.strip() == "[]"
