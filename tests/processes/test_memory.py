"""Memory that goes back to the system: by a call of glibc, and nothing at all elsewhere."""

from __future__ import annotations

import asyncio
import ctypes
from types import SimpleNamespace

import pytest

from parachuted.processes.memory import MemoryTrimmer, limit_heaps, trim_memory


class Clock:
    def __init__(self, loop: asyncio.AbstractEventLoop, patch: pytest.MonkeyPatch) -> None:
        self.due = []
        patch.setattr(loop, "call_later", self.call_later)

    def call_later(self, _seconds, call, *arguments):
        timer = SimpleNamespace(run=lambda: call(*arguments), cancelled=False)
        timer.cancel = lambda: setattr(timer, "cancelled", True)
        self.due.append(timer)
        return timer


@pytest.fixture
def calls(monkeypatch):
    made = []
    libc = SimpleNamespace(
        malloc_trim=lambda pad: made.append(("trim", pad)),
        mallopt=lambda what, value: made.append(("mallopt", what, value)),
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: libc)
    return made


def test_freed_memory_is_returned_and_threads_share_two_heaps(calls):
    trim_memory()
    limit_heaps()

    assert calls == [("trim", 0), ("mallopt", -8, 2)]


def test_without_glibc_nothing_happens(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace())
    trim_memory()
    limit_heaps()


async def test_many_requests_trim_once_and_a_later_one_again(monkeypatch, calls):
    loop = asyncio.get_running_loop()
    clock, trimmer = Clock(loop, monkeypatch), MemoryTrimmer()
    monkeypatch.setattr(loop, "run_in_executor", lambda _pool, call: call())
    for _ in range(3):
        trimmer.trim_soon()
    (timer,) = clock.due
    timer.run()
    trimmer.trim_soon()

    assert (calls, len(clock.due)) == ([("trim", 0)], 2)


async def test_a_request_is_cancelled_when_the_daemon_ends(monkeypatch):
    clock, trimmer = Clock(asyncio.get_running_loop(), monkeypatch), MemoryTrimmer()
    trimmer.close()
    trimmer.trim_soon()
    trimmer.close()

    assert [timer.cancelled for timer in clock.due] == [True]
