"""Makes tests/data/home-and-vault.tar.gz: a home and a vault as this commit's code writes them.

`python -m tests.data.make_home NAME.tar.gz`. The archives of earlier commits stay: each is opened
by tests/cli/test_earlier_formats.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path

from parachuted.agent_choice import BackendChoice
from parachuted.agents import OfflineBackend
from parachuted.config import load_settings
from parachuted.daemon import Daemon
from parachuted.suggestions import Proposal
from tests.cli import forked
from tests.cli.typed import Typed
from tests.stories.life import Life

HOOK = '#!/bin/sh\n# Says hello\nread line\necho "hello $PARACHUTE_EVENT"\n'
NOTE = "Projects/garden/AGENTS.md"
FIRST, SECOND, THIRD = (
    "Start the tomatoes indoors",
    "Plant the tomatoes out",
    "Water the tomatoes at noon",
)


async def live_in(typed: Typed) -> dict[str, str]:
    """Two runs, one of them undone; a proposal that waits and a task that waits."""
    settings = load_settings(
        typed.home, {}, {"vault": str(typed.vault), "port": 0, "bubble.quiet_s": 0.05}
    )
    choice = BackendChoice(backend=OfflineBackend(), reason="for a test", model=None)
    daemon = Daemon(settings, typed.home, choice)
    life = Life(daemon=daemon, vault=typed.vault)
    daemon.bus.subscribe(life.events.append)
    ready = asyncio.Event()
    made: dict[str, str] = {}
    async with asyncio.TaskGroup() as group:
        group.create_task(daemon.run(ready.set), name="daemon")
        await ready.wait()
        typed.save(NOTE, FIRST, SECOND)
        await life.until(lambda: life.told("run.finished"))
        await life.settled()
        made["run"] = str((await does_json(typed, "runs"))["runs"][0]["id"])
        proposal = Proposal(
            source_agent="reflector",
            reasoning="it follows",
            path="Welcome.md",
            payload={"text": "Welcome.\n"},
            action="update",
        )
        made["suggestion"] = (await daemon.suggestions.propose(proposal)).id
        await asyncio.to_thread(typed.does, "pause")
        typed.save(NOTE, SECOND, THIRD)
        await life.until(lambda: life.told("task.queued")[1:] or daemon.queue.all())
        daemon.stop()
    return made


async def does_json(typed: Typed, *words: str):
    return await asyncio.to_thread(typed.json, *words)


def main() -> None:
    """Make it."""
    archive = Path(sys.argv[1]).absolute()
    for name in [name for name in os.environ if name.startswith(("PARACHUTE_", "ANTHROPIC_"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        typed = Typed(home=folder / "home", vault=folder / "vault", folder=folder)
        typed.does("init", str(typed.vault))
        typed.does("config", "set", "bubble.quiet_s", "0.05")
        (typed.home / "machine-name").write_text("laptop\n")
        made = {"key": typed.json("keys", "create", "phone", "--scope", "vault:read")["key"]}
        (typed.home / "hooks").mkdir(mode=0o700, exist_ok=True)
        script = typed.home / "hooks/on-session-start.sh"
        script.write_text(HOOK)
        script.chmod(0o700)
        made |= asyncio.run(live_in(typed))
        (folder / "made.json").write_text(json.dumps(made, indent=2))
        with tarfile.open(archive, "w:gz") as tar:
            for part in ("home", "vault", "made.json"):
                tar.add(folder / part, part, filter=as_anyones)
    forked.end()


def as_anyones(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without the user that made it, and without what belongs to a running daemon."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if member.name.startswith(("home/run", "home/logs")) else member


if __name__ == "__main__":
    main()
