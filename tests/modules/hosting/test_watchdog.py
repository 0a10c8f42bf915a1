"""Watchdog: a module that blocks the event loop is named, with the line."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parachuted.modules.hosting import watchdog as watchdog_file
from parachuted.modules.hosting.watchdog import Watchdog
from tests.modules.small_modules import until


def function_in(folder: Path, code: str, **names: object) -> Callable[[], None]:
    """A function whose code is in a file of that folder."""
    found: dict[str, Callable[[], None]] = {"time": time, **names}
    exec(compile(code, str(folder / "module.py"), "exec"), found)  # noqa: S102
    return found["block"]


@pytest.fixture
def logged() -> Iterator[threading.Event]:
    """Set once the watchdog has logged that a module blocks the loop."""
    event = threading.Event()
    handler = logging.Handler()
    handler.emit = lambda _record: event.set()
    logger = logging.getLogger(watchdog_file.__name__)
    logger.addHandler(handler)
    yield event
    logger.removeHandler(handler)


async def test_a_module_that_blocks_the_loop_is_named_with_its_line(tmp_path, logged):
    reported: list[tuple[str, str]] = []
    watchdog = Watchdog(lambda *said: reported.append(said), every_s=0.02, late_s=0.1)
    watchdog.watch("slow", tmp_path / "slow")
    watchdog.watch("quick", tmp_path / "quick")

    function_in(tmp_path / "slow", "def block():\n    logged.wait(60)", logged=logged)()

    await until(lambda: reported)
    watchdog.close()
    assert reported[0][0] == "slow"
    assert "stood still for" in reported[0][1]
    assert f'{tmp_path}/slow/module.py", line 2, in block' in reported[0][1]
    assert len(reported) == 1


@pytest.mark.parametrize("state", ["R", "D"])
async def test_a_module_that_waits_for_a_busy_processor_or_disk_does_not_block_the_loop(
    tmp_path, monkeypatch, logged, state
):
    class OnABusyMachine(watchdog_file._LoopThread):
        def __init__(self) -> None:
            super().__init__()
            self._stat = tmp_path / "stat"

    (tmp_path / "stat").write_text(f"1 (python (3)) {state} 2 3")
    monkeypatch.setattr(watchdog_file, "_LoopThread", OnABusyMachine)
    watchdog = Watchdog(lambda *_said: None, every_s=0.02, late_s=0.05)
    watchdog.watch("daily", tmp_path / "daily")

    function_in(tmp_path / "daily", "def block():\n    time.sleep(0.5)")()

    watchdog.close()
    assert not logged.is_set()


async def test_a_module_that_computes_for_long_blocks_the_loop(tmp_path, logged):
    watchdog = Watchdog(lambda *_said: None, every_s=0.02, late_s=0.05)
    watchdog.watch("daily", tmp_path / "daily")
    code = "def block():\n    until = time.monotonic() + 60"
    code += "\n    while not logged.is_set() and time.monotonic() < until: pass"

    function_in(tmp_path / "daily", code, logged=logged)()

    watchdog.close()
    assert logged.is_set()


async def test_a_loop_that_stands_still_in_the_daemons_own_code_is_no_modules_fault(tmp_path):
    reported: list[tuple[str, str]] = []
    watchdog = Watchdog(lambda *said: reported.append(said), every_s=0.02, late_s=0.05)
    watchdog.watch("daily", tmp_path / "daily")
    watchdog.watch("gone", tmp_path / "gone")
    watchdog.forget("gone")
    await asyncio.sleep(0.05)

    time.sleep(0.2)  # noqa: ASYNC251  what the test is about
    function_in(tmp_path / "gone", "def block():\n    time.sleep(0.2)")()
    await asyncio.sleep(0.05)

    watchdog.close()
    assert reported == []


async def test_a_watchdog_that_never_watched_is_closed_at_once():
    reported: list[tuple[str, str]] = []

    Watchdog(lambda *said: reported.append(said)).close()

    assert reported == []
