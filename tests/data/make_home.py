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

from parachuted.agents.choice import BackendChoice
from parachuted.agents.offline import OfflineBackend
from parachuted.config import load_settings
from parachuted.daemon import Daemon
from parachuted.suggestions import Proposal
from tests.cli import forked
from tests.cli.command_line import CommandLine
from tests.stories.daemon_rig import DaemonRig

HOOK = '#!/bin/sh\n# Says hello\nread line\necho "hello $PARACHUTE_EVENT"\n'
NOTE = "Projects/garden/AGENTS.md"
FIRST, SECOND, THIRD = (
    "Start the tomatoes indoors",
    "Plant the tomatoes out",
    "Water the tomatoes at noon",
)


async def live_in(command_line: CommandLine) -> dict[str, str]:
    """Two runs, one of them undone; a proposal that waits and a task that waits."""
    settings = load_settings(
        command_line.home, {}, {"vault": str(command_line.vault), "port": 0, "bubble.quiet_s": 0.05}
    )
    choice = BackendChoice(backend=OfflineBackend(), reason="for a test", model=None)
    daemon = Daemon(settings, command_line.home, choice)
    daemon_rig = DaemonRig(daemon=daemon, vault=command_line.vault)
    daemon.watched.bus.subscribe(daemon_rig.events.append)
    ready = asyncio.Event()
    made: dict[str, str] = {}
    async with asyncio.TaskGroup() as group:
        group.create_task(daemon.run(ready.set), name="daemon")
        await ready.wait()
        command_line.save(NOTE, FIRST, SECOND)
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        await daemon_rig.settled()
        made["run"] = str((await does_json(command_line, "runs"))["runs"][0]["id"])
        proposal = Proposal(
            source_agent="reflector",
            reasoning="it follows",
            path="Welcome.md",
            payload={"text": "Welcome.\n"},
            action="update",
        )
        made["suggestion"] = (await daemon.vault.suggestions.propose(proposal)).id
        await asyncio.to_thread(command_line.does, "pause")
        command_line.save(NOTE, SECOND, THIRD)
        await daemon_rig.until(
            lambda: daemon_rig.reported("task.queued")[1:] or daemon.loop.queue.all()
        )
        daemon.stop()
    return made


async def does_json(command_line: CommandLine, *words: str):
    return await asyncio.to_thread(command_line.json, *words)


def main() -> None:
    """Make it."""
    archive = Path(sys.argv[1]).absolute()
    for name in [name for name in os.environ if name.startswith(("PARACHUTE_", "ANTHROPIC_"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command_line = CommandLine(home=folder / "home", vault=folder / "vault", folder=folder)
        command_line.does("init", str(command_line.vault))
        command_line.does("config", "set", "bubble.quiet_s", "0.05")
        (command_line.home / "machine-name").write_text("laptop\n")
        made = {"key": command_line.json("keys", "create", "phone", "--scope", "vault:read")["key"]}
        (command_line.home / "hooks").mkdir(mode=0o700, exist_ok=True)
        script = command_line.home / "hooks/on-session-start.sh"
        script.write_text(HOOK)
        script.chmod(0o700)
        made |= asyncio.run(live_in(command_line))
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
