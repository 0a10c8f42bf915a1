"""Save path: which files of parachuted a save passes, from the disk to a queued task.

Run as a program: `python -m benchmarks.save_path`. It prints the files in the order in which they
are first entered, and how often the way through the rooms turns round between up and down.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import tomllib
from itertools import pairwise
from pathlib import Path
from types import FrameType

import parachuted
from parachuted.agent_choice import BackendChoice
from parachuted.agents import OfflineBackend
from parachuted.config import load_settings
from parachuted.daemon import Daemon

_PACKAGE = f"{Path(parachuted.__file__).parent}/"
_BEGINNINGS = {"InotifyWatcher._read", "ChangeDetector.run", "ChangeEvaluator.evaluate"}
_SCANNER = "scanner"
_PATIENCE_S = 30.0
_PROJECT = Path(__file__).parent.parent / "pyproject.toml"


class _Recorder:
    """A profile function that notes each file of the package that is entered on a save's way."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Called at each call of a function, in every thread."""
        name = frame.f_code.co_filename
        if not self.is_on or event != "call" or not name.startswith(_PACKAGE):
            return
        if name.removeprefix(_PACKAGE) not in self.files and _is_on_the_way(frame):
            self.files[name.removeprefix(_PACKAGE)] = None


def _is_on_the_way(frame: FrameType | None) -> bool:
    """Other parts of the daemon work at the same time."""
    if threading.current_thread().name.startswith(_SCANNER):
        return True
    while frame is not None:
        if frame.f_code.co_qualname in _BEGINNINGS:
            return True
        frame = frame.f_back
    return False


def room_of(file: str) -> str:
    """The room of a file of the package, or the file's own name where it is in none."""
    return file.partition("/")[0].removesuffix(".py")


def turns(rooms: list[str]) -> int:
    """How often the way changes between going up and going down in the layers of the import
    contract.
    """
    contracts = tomllib.loads(_PROJECT.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    depths = {room: depth for depth, layer in enumerate(layers) for room in layer.split(" | ")}
    ways = [depths[room] for room in rooms]
    ups = [after < before for before, after in pairwise(ways) if after != before]
    return sum(before != after for before, after in pairwise(ups))


async def _save_path(vault: Path, home: Path) -> list[str]:
    """Save a watched note; the files entered until its watcher's task was published."""
    watched = vault / "Watched.md"
    watched.write_text("# Watched\n\nOne.\n")
    (vault / "AGENTS.md").write_text('---\nwatch:\n  - "Watched.md"\n---\n# All\n')
    recorder, queued = _Recorder(), asyncio.Event()
    threading.setprofile(recorder)
    settings = load_settings(home, {}, {"vault": str(vault), "port": 0, "bubble.quiet_s": 60})
    daemon = Daemon(
        settings,
        home,
        BackendChoice(backend=OfflineBackend(), reason="for a measurement", model=None),
    )
    ready = asyncio.Event()
    running = asyncio.get_running_loop().create_task(daemon.run(ready.set))
    await ready.wait()
    await daemon.detector.rescan()
    await asyncio.to_thread(daemon.search.settle, _PATIENCE_S)

    def end(_event: object) -> None:
        recorder.is_on = False
        queued.set()

    daemon.bus.subscribe(end, "task.queued")
    recorder.is_on = True
    sys.setprofile(recorder)
    watched.write_text("# Watched\n\nTwo.\n")
    await asyncio.wait_for(queued.wait(), _PATIENCE_S)
    sys.setprofile(None)
    threading.setprofile(None)
    daemon.stop()
    await running
    return list(recorder.files)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as vault, tempfile.TemporaryDirectory() as home:
        found = asyncio.run(_save_path(Path(vault), Path(home)))
    for file in found:
        print(file)
    count = turns([room_of(file) for file in found])
    print(f"{len(found)} files, {len({room_of(file) for file in found})} rooms, {count} turns")
