"""A module that starts threads and processes without end uses up nothing but its own: a hook still
guards a write meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from parachuted.modules.hosting.cgroup import Cgroups
from parachuted.modules.hosting.isolation_rules import landlock_version
from parachuted.modules.hosting.seccomp import can_filter
from tests.api.calls import call, get
from tests.api.routes.test_modules import install
from tests.stories.daemon_rig import Live, save

MODULE = """
import os
import threading
import time
from parachuted.modules import Module, route

MOST = 5_000
threading.stack_size(32 * 1024)  # so that the limit of memory is not what stops it


def fork():
    if os.fork() == 0:
        os.setsid()
        for _ in range(2):
            try:
                os.fork()
            except OSError:
                pass
        time.sleep(600)
        os._exit(0)


def stay():
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


def attack(begin):
    time.sleep(0.2)  # its answer is whole by then
    for _ in range(MOST):
        try:
            begin()
        except (OSError, RuntimeError):
            time.sleep(0.001)


class BombModule(Module):
    @route("POST", "/attack")
    async def attack(self, kind: str):
        threading.Thread(target=attack, args=({"forks": fork, "threads": stay}[kind],), daemon=True).start()
        return {}
"""  # noqa: E501
HOOK = '#!/bin/sh\ngrep -q forbidden && { echo "not here" >&2; exit 2; }\nexit 0\n'


def processes() -> int:
    """How many threads the modules' processes have now, with all that they started."""
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if b"PARACHUTE_MODULE=" in (folder / "environ").read_bytes():
                found += len(list((folder / "task").iterdir()))
    return found


@pytest.mark.timeout(900)  # where there is no cgroup, a bomb slows down the whole machine
@pytest.mark.parametrize(
    "attack",
    [("landlock", "threads"), ("process", "threads"), ("process", "forks")],
    ids="-".join,
)
@pytest.mark.parametrize("by", ["cgroup", "watch"])
async def test_a_guard_of_writes_works_while_a_module_starts_all_it_can(
    live: Live,
    tmp_path: Path,
    vault: Path,
    home: Path,
    attack: tuple[str, str],
    by: str,
    monkeypatch: pytest.MonkeyPatch,
    torture,
):
    sandbox, kind = attack
    if (by, kind) == ("watch", "forks") and not torture:
        pytest.skip("without a cgroup it slows down all tests beside it; `make torture` runs it")
    if sandbox == "landlock" and not (landlock_version() and can_filter()):
        pytest.skip("this machine has not the kernel's walls")
    if by == "watch":
        monkeypatch.setattr(Cgroups, "find", lambda: None)
    elif Cgroups.find() is None:
        pytest.skip("no cgroup can be made here")
    save(tmp_path / "bomb/manifest.yaml", "name: bomb\nversion: 0.1.0\nmodule: module.py\n")
    save(tmp_path / "bomb/module.py", MODULE)
    save(vault / "note.md", "# Note\n")
    save(home / "hooks/on-write-before.sh", HOOK)
    (home / "hooks").chmod(0o700)
    (home / "hooks/on-write-before.sh").chmod(0o700)
    before, most = processes(), 0
    async with live(modules__sandbox=sandbox) as daemon_rig:
        reported = await install(daemon_rig, tmp_path / "bomb", "untrusted")
        assert reported["limits"].startswith(
            "cgroup: 64 " if by == "cgroup" else "rlimit of memory, and a watch"
        )

        await call(daemon_rig, "POST", "/api/bomb/attack", json={"kind": kind})
        statuses = []
        for number in range(20):
            text = "forbidden" if number % 2 else f"Fine {number}"
            status, _ = await call(daemon_rig, "PUT", "/api/notes/note.md", data=text.encode())
            statuses.append(status)
            most = max(most, processes())
            await asyncio.sleep(0.02)
        assert (await get(daemon_rig, "/api/health"))[
            "status"
        ] == "ok" or by == "watch"  # which has ended the module
    print(  # noqa: T201
        f"\n{sandbox}, {kind}, {by}: {before} threads of modules before, at most {most} "
        f"meanwhile; {statuses}"
    )
    assert statuses == [200, 403] * 10
    assert (vault / "note.md").read_text() == "Fine 18"
    if by == "cgroup":
        assert most < before + 500  # of a machine on which others start programs too
