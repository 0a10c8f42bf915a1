"""Demo: the whole loop in a temporary vault, as a person would live it, command by command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from parachuted.cli.client import follow
from parachuted.cli.commands import Json, command
from parachuted.cli.show import say, say_lines
from parachuted.errors import DaemonError
from parachuted.home_files.bundled import bundled_folder

_GARDEN = "Projects/garden/AGENTS.md"
_OLD, _NEW = "- Start the tomatoes indoors.", "- Plant the tomatoes out: the frost is over."


@command("demo", "see it work, in ten seconds")
def demo(options: Namespace) -> None:
    """Run the whole loop in a temporary vault: change, run, diff, why, undo.

    --keep  keep the demo's vault, and say where it is
    """
    folder = Path(tempfile.mkdtemp(prefix="parachute-demo-"))
    vault, home = folder / "Parachute", folder / "home"
    try:
        shutil.copytree(bundled_folder("vault-template"), vault)
        home.mkdir(mode=0o700)
        for name in [name for name in os.environ if name.startswith("PARACHUTE_")]:
            del os.environ[name]
        os.environ |= {"HOME": str(folder), "TMPDIR": str(home)}
        os.environ |= {"PARACHUTE_HOME": str(home), "PARACHUTE_VAULT": str(vault)}
        os.environ |= {"PARACHUTE_AGENT_BACKEND": "offline", "PARACHUTE_BUBBLE_QUIET_S": "1"}
        _run("start", "--port", "0")
        try:
            _show_loop(vault)
        finally:
            _run("stop")
    finally:
        if options.keep:
            say(f"\nThe demo's vault is kept in {vault}.")
        else:
            shutil.rmtree(folder)


def _show_loop(vault: Path) -> None:
    events = follow("GET /api/events")

    def wait(name: str) -> Json:
        return next(event["data"] for event in events if event["event"] == name)

    say(f"A vault in {vault}. Its AGENTS.md watches Projects/* and Areas/*.")
    say("The agent is the offline one: no model, no account, no cost.\n")
    _type("bubble", "plan", _GARDEN)
    say(f"\n1. edit       You edit {_GARDEN}: {_OLD[2:]!r} becomes {_NEW[2:]!r}")
    garden = vault / _GARDEN
    saved = garden.with_name(f".{garden.name}.swp")  # as an editor saves
    saved.write_text(garden.read_text("utf-8").replace(_OLD, _NEW), "utf-8")
    saved.replace(garden)
    task = wait("task.queued")
    say(f"2. queued     {task['watcher']} watches {', '.join(task['paths'])}")
    run = wait("run.finished")
    say(f"3. run        {run['watcher']}: {run['outcome']}, {run['reason']}")
    _type("diff", run["run"])
    say("\n4. why        You ask where a line is from:")
    lines = enumerate((vault / "AGENTS.md").read_text("utf-8").splitlines(), 1)
    _type("why", f"AGENTS.md:{next(number for number, line in lines if 'frost' in line)}")
    say("\n5. undo       You take the run back; your edit of the garden stays:")
    _type("undo", run["run"], "--yes")
    say("\nThat is the whole loop. With notes of your own: `parachute init`, `parachute start`.")


def _type(*words: str) -> None:
    say(f"   $ parachute {' '.join(words)}")
    say_lines(f"     {line}" for line in _run(*words).splitlines() if line.strip())


def _run(*words: str) -> str:
    program = [sys.executable, "-P", "-m", "parachuted", *words]
    done = subprocess.run(program, capture_output=True, text=True, check=False)  # noqa: S603  our own program
    if done.returncode:
        raise DaemonError(f"the demo's `parachute {words[0]}` failed: {done.stderr.strip()}")
    return done.stdout
