"""A daemon that is killed leaves no process of a module, whatever that process does to live on."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from parachuted.modules.hosting.isolation_rules import landlock_version
from parachuted.modules.hosting.seccomp import can_filter
from tests.api.calls import call
from tests.api.routes.test_modules import install
from tests.stories.apart import apart
from tests.stories.daemon_rig import save

MODULE = """
import ctypes
import os
import signal
import threading
from parachuted.modules import Module, route

class StayModule(Module):
    @route("POST", "/stay")
    async def stay(self):
        libc = ctypes.CDLL(None)
        taken_back = libc.prctl(1, 0, 0, 0, 0)
        os._exit = lambda code: None
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        def burn():
            while True:
                libc.prctl(1, 0, 0, 0, 0)
        threading.Thread(target=burn, daemon=False).start()
        libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.pause, None)
        return {"taken_back": taken_back}
"""


@pytest.mark.skipif(
    not (landlock_version() and can_filter()), reason="this machine has not the kernel's walls"
)
async def test_a_module_that_would_stay_is_gone_soon_after_its_daemon_was_killed(
    vault: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PARACHUTE_MODULES_SANDBOX", "landlock")
    save(tmp_path / "stay/manifest.yaml", "name: stay\nversion: 0.1.0\nmodule: module.py\n")
    save(tmp_path / "stay/module.py", MODULE)
    async with apart(vault, home) as daemon_rig:
        await install(daemon_rig, tmp_path / "stay", "untrusted")  # type: ignore[arg-type]
        assert await call(daemon_rig, "POST", "/api/stay/stay") == (200, {"taken_back": -1})  # type: ignore[arg-type]
        workers = [
            child
            for child in psutil.Process(daemon_rig.pid).children(recursive=True)
            if "host_main" in " ".join(child.cmdline())
        ]
        assert len(workers) == 1
        began = time.monotonic()
        os.kill(daemon_rig.pid, signal.SIGKILL)
        while any(
            worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers
        ):
            assert time.monotonic() - began < 30, "it lives on"
            await asyncio.sleep(0.005)
        print(f"\nan orphan is gone after {(time.monotonic() - began) * 1000:.0f} ms")  # noqa: T201  what is asked for is printed
