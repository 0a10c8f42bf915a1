"""Walk: which files a save, a read of a note and a turn of Chat enter.

Run as a program: `python -m benchmarks.walk [--files] [NAME ...]`. A daemon runs in this process on
a temporary vault, and a profile function notes every function that is called meanwhile, in all
threads. What an idle daemon calls as well is left out, and for a turn what any save calls. The
lines are those of whole files.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import aiohttp

from parachuted.agents.choice import choose_agent
from parachuted.config import load_settings
from parachuted.daemon import Daemon
from parachuted.events import Event
from parachuted.home_files.bundled import bundled_folder
from parachuted.home_files.vault_state import state_folder
from parachuted.testing import ScriptedMessages, say

NAMES = ("save", "get", "chat", "chat with claude")
_PROJECT = Path(__file__).resolve().parent.parent
_SETTLE_S = 6.0  # longer than the slowest of the daemon's regular looks at its files
_PATIENCE_S = 60.0
_MODEL_TURNS = 20


class Recorder:
    """A profile function: `calls` has each function that was entered while it was on, in order."""

    def __init__(self) -> None:
        self.calls: dict[CodeType, None] = {}
        self._is_on = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Called by the interpreter at each call and return, in every thread."""
        if self._is_on and event == "call" and frame.f_code.co_name != "<module>":
            self.calls[frame.f_code] = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[dict[CodeType, None]]:
        """The functions that are entered until the block ends."""
        self.calls = {}
        self._is_on = True
        sys.setprofile(self)
        try:
            yield self.calls
        finally:
            sys.setprofile(None)
            self._is_on = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The files that one act enters, in the order in which they are first entered."""

    name: str
    files: tuple[str, ...]

    @property
    def lines(self) -> int:
        """How long these files are together."""
        return sum(count_lines(file) for file in self.files)


def count_lines(file: str) -> int:
    return len((_PROJECT / file).read_text("utf-8").splitlines())


def find_source(path: str) -> str | None:
    """The file of the project that the code at `path` is from; None for a library, and for the
    model that is played.

    A module runs from a copy in the home: its folder has the module's name, or one inside it has
    the files.
    """
    place = Path(path)
    if place.is_relative_to(_PROJECT / "parachuted"):
        source = place.relative_to(_PROJECT).as_posix()
        return source if source != "parachuted/testing.py" else None
    if "site-packages" in place.parts or not place.is_absolute():
        return None
    for end in range(1, len(place.parts) - 1):
        module = _PROJECT / "modules" / place.parts[end]
        for start in range(end + 1, len(place.parts)):
            source_file = module.joinpath(*place.parts[start:])
            if source_file.is_file():
                return source_file.relative_to(_PROJECT).as_posix()
    return None


def make_walk(name: str, calls: dict[CodeType, None], idle: dict[CodeType, None]) -> Walk:
    """The files of the functions that only the act entered."""
    found = (find_source(code.co_filename) for code in calls if code not in idle)
    return Walk(name=name, files=tuple(dict.fromkeys(file for file in found if file is not None)))


class _Daemon:
    """A daemon in this process and a client of its API."""

    def __init__(
        self, daemon: Daemon, vault: Path, client: aiohttp.ClientSession, settle_s: float
    ) -> None:
        self._daemon, self._vault, self._client = daemon, vault, client
        self._settle_s = settle_s

    async def settle(self) -> None:
        """Wait until earlier changes have had their consequences, and the daemon has looked at its
        files.
        """
        await asyncio.sleep(self._settle_s)

    async def save(self, text: str) -> None:
        """Change the watched note, and wait until what its watcher's agent wrote was noticed."""
        is_finished, is_written = asyncio.Event(), asyncio.Event()

        def follow(event: Event) -> None:
            if event.event == "run.finished":
                is_finished.set()
            elif event.event == "file.modified" and event.data["path"] == "AGENTS.md":
                is_written.set()

        with contextlib.ExitStack() as stack:
            stack.callback(
                self._daemon.watched.bus.subscribe(follow, "run.finished", "file.modified")
            )
            self.write("Watched.md", f"# Watched\n\n{text}\n")
            async with asyncio.timeout(_PATIENCE_S):
                await is_finished.wait()
                await is_written.wait()

    def write(self, note: str, text: str) -> None:
        (self._vault / note).write_text(text, "utf-8")

    async def get(self, note: str) -> None:
        async with self._client.get(f"/api/notes/{note}") as answer:
            answer.raise_for_status()
            await answer.read()

    async def install_chat(self) -> None:
        source = {"source": str(bundled_folder("modules") / "chat")}
        shown = await self._post("/api/modules/install", source)
        await self._post("/api/modules/chat/approve", {"hash": shown["hash"], "trust": "trusted"})

    async def chat(self, message: str) -> None:
        """One turn of a new conversation, read to its end."""
        async with self._client.post("/api/chat", json={"message": message}) as answer:
            answer.raise_for_status()
            events = [
                json.loads(line[6:]) async for line in answer.content if line.startswith(b"data: ")
            ]
        if events[-1]["type"] != "done":
            raise RuntimeError(f"the turn ended with {events[-1]}")

    async def _post(self, path: str, body: object) -> dict[str, Any]:
        async with self._client.post(path, json=body) as answer:
            answer.raise_for_status()
            shown: dict[str, Any] = await answer.json()
            return shown


@contextlib.asynccontextmanager
async def _running(folder: Path, settle_s: float, **flags: object) -> AsyncIterator[_Daemon]:
    vault, home = folder / "vault", folder / "home"
    vault.mkdir()
    home.mkdir(mode=0o700)
    (vault / "Watched.md").write_text("# Watched\n\nOne.\n", "utf-8")
    (vault / "Other.md").write_text("# Other\n\nText.\n", "utf-8")
    (vault / "AGENTS.md").write_text('---\nwatch:\n  - "Watched.md"\n---\n# All\n', "utf-8")
    chosen = {"vault": str(vault), "port": 0, "bubble.quiet_s": 0.1, **flags}
    settings = load_settings(home, {}, chosen)
    agent = choose_agent(settings, state_folder(home, vault), {}, folder)
    daemon = Daemon(settings, home, agent)
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(daemon.run(ready.set), name="daemon")
        await asyncio.wait_for(ready.wait(), _PATIENCE_S)
        try:
            async with aiohttp.ClientSession(f"http://127.0.0.1:{daemon.port}") as client:
                yield _Daemon(daemon, vault, client, settle_s)
        finally:
            daemon.stop()


async def _walk_offline(
    folder: Path, settle_s: float, recorder: Recorder, names: Sequence[str]
) -> list[Walk]:
    """Each act once beforehand, so that what is loaded or made at a first use is no part of it."""
    walks = []
    async with _running(folder, settle_s, **{"agent.backend": "offline"}) as daemon:
        await daemon.save("Two.")
        await daemon.get("Other.md")
        await daemon.settle()
        with recorder.recording() as idle:
            await daemon.settle()
        if "save" in names:
            with recorder.recording() as calls:
                await daemon.save("Three.")
            walks.append(make_walk("save", calls, idle))
        if "get" in names:
            await daemon.settle()
            with recorder.recording() as calls:
                await daemon.get("Watched.md")
            walks.append(make_walk("get", calls, idle))
        if "chat" in names:
            walks.append(await _walk_chat("chat", daemon, recorder))
    return walks


async def _walk_chat(name: str, daemon: _Daemon, recorder: Recorder) -> Walk:
    """What a save of any note enters is left out: the notes that a turn writes are noticed too."""
    await daemon.install_chat()
    await daemon.chat("What is new?")
    await daemon.settle()
    with recorder.recording() as idle:
        daemon.write("Other.md", "# Other\n\nAnother text.\n")
        await daemon.settle()
    with recorder.recording() as calls:
        await daemon.chat("What is in Watched.md?")
    return make_walk(name, calls, idle)


async def _walk_with_claude(folder: Path, settle_s: float, recorder: Recorder) -> Walk:
    """The same turn with Claude Code's CLI, and a model on this machine that answers at once."""
    async with ScriptedMessages([[say("Here you are.")]] * _MODEL_TURNS) as model:
        flags = {"agent.backend": "claude", "agent.base_url": model.url}
        async with _running(folder, settle_s, **flags) as daemon:
            return await _walk_chat("chat with claude", daemon, recorder)


async def take(names: Sequence[str], settle_s: float = _SETTLE_S) -> list[Walk]:
    """Follow these acts."""
    recorder = Recorder()
    threading.setprofile(recorder)  # before any thread of the daemon is started
    walks = []
    try:
        if set(names) & {"save", "get", "chat"}:
            with tempfile.TemporaryDirectory(prefix="parachute-walk-") as folder:
                walks += await _walk_offline(Path(folder), settle_s, recorder, names)
        if "chat with claude" in names:
            with tempfile.TemporaryDirectory(prefix="parachute-walk-") as folder:
                walks.append(await _walk_with_claude(Path(folder), settle_s, recorder))
    finally:
        threading.setprofile(None)
    return walks


def main() -> int:
    """Follow the acts named, or all, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.walk", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--files", action="store_true", help="list each file with its lines")
    options = parser.parse_args()
    walks = asyncio.run(take(options.names or NAMES))
    print(f"{'walk':<20}{'files':>8}{'lines':>10}")
    for walk in walks:
        print(f"{walk.name:<20}{len(walk.files):>8}{walk.lines:>10,}")
    for walk in walks if options.files else ():
        print(f"\n{walk.name}:")
        for file in walk.files:
            print(f"{count_lines(file):>8}  {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
