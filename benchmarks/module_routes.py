"""Module routes: what a module's route costs over one of the core's that does as little, over a
running daemon, in rounds in turn.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.process import Process, daemon, temporary_home
from benchmarks.report import Figure
from benchmarks.serving import asked
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.skeleton import new_module

_CORE, _MODULE = "/api/scheduler", "/api/little/jobs"
_ASKERS, _ROUNDS, _ROUND_S, _READY_S = 1, 9, 1.0, 20.0
_CODE = '''
from parachuted.modules import Module, route


class LittleModule(Module):
    @route("GET", "/jobs")
    async def jobs(self):
        """As little as the core's own."""
        return {"jobs": [{"name": "full_scan", "every_s": 600.0, "description": "looks through the whole vault"}], "count": 1}
'''  # noqa: E501


def module_routes(folder: Path) -> Iterator[Figure]:
    """In the daemon's process, as trusted modules are."""
    vault = folder / "vault"
    vault.mkdir(parents=True)
    with temporary_home() as home:
        home.chmod(0o700)
        _approve(home, vault)
        with daemon(vault, home) as process:
            _await_module(process)
            yield _compared(process)


def _compared(process: Process) -> Figure:
    spans: dict[str, list[float]] = {_CORE: [], _MODULE: []}
    for _ in range(_ROUNDS):
        for path, found in spans.items():
            found.append(
                statistics.median(asked(process.port, path, _ASKERS, _ROUND_S)["spans_ms"])
            )
    core, module = (statistics.median(spans[path]) for path in (_CORE, _MODULE))
    return Figure(
        name="a module's route, against one of the core's",
        value=module,
        unit="ms",
        reference=core,
        bound=1.25,
    )


def _approve(home: Path, vault: Path) -> None:
    new_module(vault / "Modules" / "little", "little")
    (vault / "Modules" / "little" / "module.py").write_text(_CODE)
    trust = ModuleApprovals(home, vault, env=dict(os.environ))
    trust.approve("little", trust.consent("little").digest, trust="trusted")


def _await_module(process: Process) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            asked(process.port, _MODULE, 1, 0.05)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
