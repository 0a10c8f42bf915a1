"""Watchdog: who stands in the loop's way is named, with the line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from parachuted.modules.hosting.watchdog import Watchdog
from tests.modules.small_modules import until


def function_in(folder: Path, code: str) -> Callable[[], None]:
    """A function whose code is in a file of that folder."""
    names: dict[str, Callable[[], None]] = {"time": time}
    exec(compile(code, str(folder / "module.py"), "exec"), names)  # noqa: S102
    return names["block"]


async def test_a_module_that_blocks_the_loop_is_named_with_its_line(tmp_path):
    told: list[tuple[str, str]] = []
    watchdog = Watchdog(lambda *said: told.append(said), every_s=0.02, late_s=0.1)
    watchdog.watch("slow", tmp_path / "slow")
    watchdog.watch("quick", tmp_path / "quick")
    await asyncio.sleep(0.05)

    function_in(tmp_path / "slow", "def block():\n    time.sleep(0.5)")()

    await until(lambda: told)
    watchdog.close()
    assert told[0][0] == "slow"
    assert "stood still for" in told[0][1]
    assert f'{tmp_path}/slow/module.py", line 2, in block' in told[0][1]
    assert len(told) == 1


async def test_a_loop_that_stands_still_in_the_daemons_own_code_is_no_modules_fault(tmp_path):
    told: list[tuple[str, str]] = []
    watchdog = Watchdog(lambda *said: told.append(said), every_s=0.02, late_s=0.05)
    watchdog.watch("daily", tmp_path / "daily")
    watchdog.watch("gone", tmp_path / "gone")
    watchdog.forget("gone")
    await asyncio.sleep(0.05)

    time.sleep(0.2)  # noqa: ASYNC251  what the test is about
    function_in(tmp_path / "gone", "def block():\n    time.sleep(0.2)")()
    await asyncio.sleep(0.05)

    watchdog.close()
    assert told == []


async def test_a_watchdog_that_never_watched_is_closed_at_once():
    told: list[tuple[str, str]] = []

    Watchdog(lambda *said: told.append(said)).close()

    assert told == []
