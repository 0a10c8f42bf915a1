"""Notices, from its own thread, when the event loop is blocked, and by whose code.

Code in this process cannot be interrupted, but a person can see which module and line is to
blame. A machine that stalls, or has too much to do, is not the fault of a module: that time
is not counted.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

log = logging.getLogger(__name__)

_ROUNDS = 10


class Watchdog:
    """Looks at the loop now and then.

    `report` is called on the loop, once it moves again, with the module's name and what was seen.
    """

    def __init__(
        self, report: Callable[[str, str], None], *, every_s: float = 1.0, late_s: float = 1.0
    ) -> None:
        self._report = report
        self._every_s, self._late_s = every_s, late_s
        self._folders: dict[str, str] = {}
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, name: str, folder: Path) -> None:
        """Know that code of this folder is that module's.

        Call it on the loop; the first call begins the watch.
        """
        self._folders |= {f"{folder}/": name, f"{folder.resolve()}/": name}
        if self._thread is None:
            arguments = (asyncio.get_running_loop(), threading.get_ident(), _LoopThread())
            self._thread = threading.Thread(
                target=self._run, args=arguments, name="module watchdog", daemon=True
            )
            self._thread.start()

    def forget(self, name: str) -> None:
        """That module's code runs no more."""
        self._folders = {folder: one for folder, one in self._folders.items() if one != name}

    def close(self) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join(timeout=1)

    def _run(self, loop: asyncio.AbstractEventLoop, loop_thread: int, clock: _LoopThread) -> None:
        while not self._ending.wait(self._every_s):
            beat = threading.Event()
            began = time.monotonic()
            try:
                loop.call_soon_threadsafe(beat.set)
                if not self._is_late(beat, clock):
                    continue
                self._look(loop, sys._current_frames().get(loop_thread), began)  # noqa: SLF001  the one way to see another thread's frames
                while not beat.wait(self._every_s):  # once is enough for one standstill
                    if self._ending.is_set():
                        return
            except RuntimeError:  # the loop is closed
                return

    def _is_late(self, beat: threading.Event, clock: _LoopThread) -> bool:
        """Whether the loop has stood still for that long by itself.

        A round counts as its own length, however long the machine made it, and as less where the
        loop's thread waited for a processor, the disk or memory.
        """
        stood, round_s = 0.0, self._late_s / _ROUNDS
        while stood < self._late_s:
            used_before = clock.used_s()
            if beat.wait(round_s):
                return False
            used_s = clock.used_s() - used_before
            stood += min(used_s, round_s) if clock.waits_for_machine() else round_s
        return True

    def _look(self, loop: asyncio.AbstractEventLoop, frame: FrameType | None, began: float) -> None:
        name = self._whose(frame)
        if name is None:
            return
        stood = time.monotonic() - began
        lines = "".join(traceback.format_stack(frame)).rstrip()
        said = (
            f"the daemon has stood still for {stood:.1f} s in the module {name}; give long "
            f"work to asyncio.to_thread\n{lines}"
        )
        log.error("a module blocks the daemon", extra={"module_name": name, "stack": lines})
        loop.call_soon_threadsafe(self._report, name, said)

    def _whose(self, frame: FrameType | None) -> str | None:
        while frame is not None:
            file = frame.f_code.co_filename
            for folder, name in self._folders.items():
                if file.startswith(folder):
                    return name
            frame = frame.f_back
        return None


class _LoopThread:
    """The processor time of the thread that makes this. Where the system does not tell it, the
    thread counts as one that wants none.
    """

    def __init__(self) -> None:
        self._stat = Path(f"/proc/self/task/{threading.get_native_id()}/stat")
        get_clock = getattr(time, "pthread_getcpuclockid", None)
        self._clock = None if get_clock is None else get_clock(threading.get_ident())

    def used_s(self) -> float:
        """In seconds."""
        return 0.0 if self._clock is None else time.clock_gettime(self._clock)

    def waits_for_machine(self) -> bool:
        """Whether it runs, or would if a processor, the disk or a page of memory were there."""
        try:
            return self._stat.read_text().rpartition(")")[2].split()[0] in {"R", "D"}
        except OSError:
            return False
