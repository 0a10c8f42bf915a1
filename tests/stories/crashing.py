"""Crashing: daemons that die at a chosen step of what they make durable, and what the next one
makes of it.

A program of its own: `python -m tests.stories.crashing`. It reads a life to live as a line of JSON,
lives it in a forked child, and answers with a line: `{"died": whether it did, "steps": how many
there were, "problem": what went wrong}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil  # noqa: F401  it looks at its import what these calls can do
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.stories.life_span import LifeSpan

DIED = 9
_START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class Steps:
    """Counts what changes the disk, a step before each call and one after, and ends the process at
    the chosen one.
    """

    def __init__(self) -> None:
        self.count = 0
        self.dies_at = 0

    def take(self) -> None:
        self.count += 1
        if self.count == self.dies_at:
            os._exit(DIED)

    def around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.take()
            answer = real(*arguments, **named)
            self.take()
            return answer

        return call


steps = Steps()
for name in ("rename", "replace", "unlink", "link", "fsync", "fdatasync"):
    setattr(os, name, steps.around(getattr(os, name)))

# The journal remembers the calls as they are when it is imported.
import aiohttp  # noqa: E402

from parachuted.access.caller import Caller  # noqa: E402
from parachuted.access.notes import AppendSection, NoteChange, SetKey  # noqa: E402
from parachuted.agents.choice import BackendChoice  # noqa: E402
from parachuted.agents.offline import OfflineBackend  # noqa: E402
from parachuted.daemon import Daemon  # noqa: E402
from parachuted.home_files.bundled import bundled_folder  # noqa: E402
from parachuted.runs.bounds import ModuleBounds  # noqa: E402
from parachuted.state import Database  # noqa: E402
from parachuted.suggestions import Proposal  # noqa: E402
from parachuted.vault import swap  # noqa: E402
from tests.stories.daemon_rig import DaemonRig, at_work, save, settings_of  # noqa: E402

swap._renameat2 = steps.around(swap._renameat2)
_write = Database.write


@contextlib.contextmanager
def _counted_write(database: Database, *, is_durable: bool = True) -> Iterator[Any]:
    with _write(database, is_durable=is_durable) as connection:
        yield connection
    if database.path.name == "history.db":
        steps.take()


Database.write = _counted_write


async def live(span: LifeSpan) -> None:
    """Start, wait until everything is settled, stop."""
    home, vault = Path(span.home), Path(span.vault)
    settings = settings_of(home, vault, {"bubble.quiet_s": 0.02})
    chosen = BackendChoice(backend=OfflineBackend(), reason="for a test", model=None)
    daemon = Daemon(
        settings,
        home,
        chosen,
        clock=lambda: _START + timedelta(seconds=time.monotonic() - span.began),
    )
    async with at_work(daemon, vault) as daemon_rig:
        if span.does:
            await _calm(daemon_rig)
            steps.count, steps.dies_at = 0, span.dies_at
            await ACTS[span.does](daemon_rig)
        await daemon.approvals.quiet()
        await daemon_rig.settled()
        await daemon_rig.until(lambda: _is_kept(daemon))


async def _calm(daemon_rig: DaemonRig) -> None:
    """Nothing is left to do, and links are known."""
    await daemon_rig.settled()
    await daemon_rig.daemon.approvals.quiet()
    await daemon_rig.until(lambda: not daemon_rig.daemon.vault.search.is_behind)


async def post(daemon_rig: DaemonRig, path: str, body: object) -> Any:
    """Ask for something over the API; whether it is answered well is seen on the disk."""
    async with (
        aiohttp.ClientSession() as client,
        client.post(daemon_rig.url + path, json=body) as answer,
    ):
        return await answer.json()


async def move(daemon_rig: DaemonRig) -> None:
    """A note to which others have links."""
    await post(daemon_rig, "/api/notes/hub.md/move", {"to": "Deep/centre.md"})


async def merge(daemon_rig: DaemonRig) -> None:
    """Two notes that are one, as Brain merges entities: one takes over what the other says, all
    that name that name it, and the other goes.
    """
    sources = daemon_rig.daemon.modules.sources
    bounds = ModuleBounds.of_module("brain", read=["**"], write=["**"])
    vault = sources.vaults.of_module("brain", bounds, caller=Caller)
    links = sorted((daemon_rig.vault / "Links").iterdir())
    changes = [
        NoteChange("keep.md", [AppendSection("Facts", "- of hub")]),
        *(NoteChange(f"Links/{link.name}", [SetKey("about", "keep")]) for link in links),
        NoteChange("hub.md", None),
    ]
    await vault.edit_all(changes, reason="merged")


async def undo(daemon_rig: DaemonRig) -> None:
    """The oldest run, with all that followed."""
    oldest = daemon_rig.daemon.watched.history.runs(limit=1000)[-1]
    await post(daemon_rig, f"/api/runs/{oldest['id']}/undo", {})


async def install(daemon_rig: DaemonRig) -> None:
    """Chat and Daily."""
    for name in ("chat", "daily"):
        source = {"source": str(bundled_folder("modules") / name)}
        shown = await post(daemon_rig, "/api/modules/install", source)
        approval = {"hash": shown["hash"], "trust": "trusted"}
        await post(daemon_rig, f"/api/modules/{name}/approve", approval)


async def bring(daemon_rig: DaemonRig) -> None:
    """Conversations and a journal of another program."""
    exported = json.loads((daemon_rig.vault / "conversations.json").read_text())
    await post(daemon_rig, "/api/import/", {"data": exported})
    await post(daemon_rig, "/api/daily/import", {"source": "Daily/import", "dry_run": False})


async def suggest(daemon_rig: DaemonRig) -> None:
    """What waits for a person."""
    await daemon_rig.daemon.vault.suggestions.propose(
        Proposal(
            source_agent="reflector",
            reasoning="it follows",
            path="a.md",
            payload={"text": "two\n"},
            action="update",
        )
    )


async def tick(daemon_rig: DaemonRig) -> None:
    """A person ticks `approve` in an editor."""
    (file,) = (daemon_rig.vault / "Suggestions").glob("*.md")
    save(file, file.read_text().replace("- [ ] approve", "- [x] approve", 1))


ACTS = {one.__name__: one for one in (move, merge, undo, install, bring, suggest, tick)}


def _is_kept(daemon: Daemon) -> bool:
    """Whether the texts of watched notes are at hand, to show their next change as a difference."""
    entries = [
        daemon.watched.index.get(path)
        for path in daemon.watched.index.paths()
        if daemon.loop.watches.downstream(path)
    ]
    return all(entry is not None and entry.digest in daemon.watched.objects for entry in entries)


def main() -> None:
    """Serve lives until there are no more. The child answers, unless it died."""
    for line in sys.stdin:
        span = LifeSpan(**json.loads(line))
        child = os.fork()
        if not child:
            _live_and_tell(span)
        _pid, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == DIED:
            _tell(died=True)


def _live_and_tell(span: LifeSpan) -> None:
    problem = None
    steps.count, steps.dies_at = 0, 0 if span.does else span.dies_at
    try:
        asyncio.run(live(span))
    except BaseException:  # noqa: BLE001  whatever it was, it is told
        problem = traceback.format_exc()
    steps.dies_at = 0
    _tell(died=False, problem=problem)
    os._exit(0)


def _tell(*, died: bool, problem: str | None = None) -> None:
    sys.stdout.write(json.dumps({"died": died, "steps": steps.count, "problem": problem}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
