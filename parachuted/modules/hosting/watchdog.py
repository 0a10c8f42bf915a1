"""Notices, from its own thread, when the event loop is blocked, and by whose code.

Code in this process cannot be interrupted, but a person can be told which module and line is to
blame.
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
            arguments = (asyncio.get_running_loop(), threading.get_ident())
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

    def _run(self, loop: asyncio.AbstractEventLoop, loop_thread: int) -> None:
        while not self._ending.wait(self._every_s):
            beat = threading.Event()
            began = time.monotonic()
            try:
                loop.call_soon_threadsafe(beat.set)
                if beat.wait(self._late_s):
                    continue
                self._look(loop, sys._current_frames().get(loop_thread), began)  # noqa: SLF001  the one way to see another thread's frames
                while not beat.wait(self._every_s):  # once is enough for one standstill
                    if self._ending.is_set():
                        return
            except RuntimeError:  # the loop is closed
                return

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
