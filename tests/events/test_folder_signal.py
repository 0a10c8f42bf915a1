"""A folder signal wakes for what happens in its folders, and for the time where nothing does or the
system does not watch.
"""

from __future__ import annotations

import asyncio
import errno
from functools import partial

import pytest

from parachuted.events.folder_signal import FolderSignal
from parachuted.events.watcher import make_watcher

LONG_S = 600.0


@pytest.fixture(autouse=True)
def _on_each_engine(engine, monkeypatch):
    monkeypatch.setattr(
        "parachuted.events.folder_signal.make_watcher", partial(make_watcher, engine=engine)
    )


@pytest.fixture
async def signal(tmp_path):
    made = FolderSignal(tmp_path, ("", "hooks"), shortest_s=0.01, longest_s=LONG_S)
    yield made
    made.close()


async def wakes(signal) -> None:
    async with asyncio.timeout(30):
        await signal.wait()


async def test_it_wakes_for_a_file_that_is_written_replaced_or_removed(signal, tmp_path):
    keys = tmp_path / "keys.yaml"
    keys.write_text("keys: []")
    await wakes(signal)
    (tmp_path / "new").write_text("keys: [x]")
    await wakes(signal)
    (tmp_path / "new").replace(keys)
    await wakes(signal)
    keys.unlink()
    await wakes(signal)


async def test_it_wakes_for_what_is_in_a_folder_that_was_made_later(signal, tmp_path):
    (tmp_path / "hooks").mkdir()
    await wakes(signal)
    (tmp_path / "hooks" / "on-file-created.sh").write_text("true")
    await wakes(signal)


async def test_what_happened_before_anyone_waited_is_not_missed(signal, tmp_path):
    (tmp_path / "keys.yaml").write_text("")
    await asyncio.sleep(0.05)

    await wakes(signal)


async def test_without_a_change_it_wakes_when_the_longest_time_has_passed(tmp_path):
    signal = FolderSignal(tmp_path, ("",), shortest_s=LONG_S, longest_s=0.01)
    await wakes(signal)
    signal.close()


async def test_where_the_system_does_not_watch_it_wakes_after_the_shortest_time(
    tmp_path, monkeypatch
):
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "no watches left")

    monkeypatch.setattr("parachuted.events.watcher.InotifyWatcher.enter", refuse)
    signal = FolderSignal(tmp_path, ("",), shortest_s=0.01, longest_s=LONG_S)
    await wakes(signal)
    signal.close()
