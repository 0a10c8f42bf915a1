"""Demo of the journal: one entry, and what follows from it through Daily, Brain and the loop."""

from __future__ import annotations

import os
import time
from pathlib import Path
from urllib.parse import quote

from parachuted.cli.client import ask
from parachuted.cli.demo_daemon import PATIENCE_S, demo_daemon, demo_events, save_note
from parachuted.cli.show import say, say_diff, say_lines
from parachuted.errors import DaemonError

_PERSON = "Brain/entities/people/kim-lee.md"
_PROJECT = "Projects/garden/AGENTS.md"
_DAY = "Daily/journals/2026-02-24.md"
_ENTRY = "# Noon\n\nKim Lee brought seeds of black beans for the garden.\n"
_QUESTION = "Who grows beans?"
_PATTERN = "Brain/entities/people/*.md"


def run_journal(vault: Path, home: Path) -> None:
    """Show it, in this vault, which is new. Raises DaemonError when a step does not happen."""
    for name in ("brain", "daily"):
        _install(vault, home, name)
    project = vault / _PROJECT
    text = project.read_text("utf-8")
    project.write_text(f'---\nwatch:\n  - "{_PATTERN}"\n---\n{text}', "utf-8")
    person = vault / _PERSON
    person.parent.mkdir(parents=True)
    person.write_text("# Kim Lee\n\nGrows beans.\n", "utf-8")
    say(
        f"A vault in {vault}, with Daily, the journal, and Brain, which knows people and projects. "
        f"{_PROJECT} watches {_PATTERN}; AGENTS.md watches Projects/*."
    )
    with demo_daemon(vault, home) as record, demo_events(record) as events:
        _wait_for_modules()
        (vault / _DAY).parent.mkdir(parents=True, exist_ok=True)
        say(f"\n1. You type into {_DAY}:\n")
        say_lines(f"   {line}" for line in _ENTRY.splitlines())
        say("")
        save_note(vault / _DAY, _ENTRY)
        entry = events.wait("daily.entry.created")
        say(f"2. entry      Daily has a new entry in {entry['entry_path']}")
        mention = events.wait("brain.mention.detected")
        say(f"3. mention    Brain knows who that is: {mention['para_id']}, {_PERSON}")
        runs = [events.wait("run.finished") for _ in range(2)]
        for number, run in enumerate(runs, 4):
            say(f"{number}. run        {run['watcher']}: {run['outcome']}, {run['reason']}")
            for wrote in ask("GET", f"/api/runs/{run['run']}")["wrote"]:
                say_diff(wrote["diff"])
        found = ask("GET", f"/api/brain/recall?query={quote(_QUESTION)}")["results"]
        say(f"6. recall     {_QUESTION} {found[0]['title']}, {found[0]['path']}")
        undone = ask("POST", f"/api/runs/{runs[0]['run']}/undo", {})
        say(f"7. undo       {len(undone['runs'])} runs taken back; your entry stays.")
    say("\nFor a journal of your own: `parachute init --with daily,brain`.")


def _wait_for_modules() -> None:
    deadline = time.monotonic() + PATIENCE_S
    while any(one["status"] == "starting" for one in ask("GET", "/api/modules")["modules"]):
        if time.monotonic() > deadline:
            raise DaemonError("the demo's modules did not start")
        time.sleep(0.05)


def _install(vault: Path, home: Path, name: str) -> None:
    from parachuted.modules.actions import ModuleActions
    from parachuted.modules.registry.approvals import ModuleApprovals

    actions = ModuleActions(ModuleApprovals(home, vault, env=os.environ))
    shown = actions.install(f"parachute://{name}", path=None, dev=False)
    actions.approve(name, shown["hash"], "trusted")
