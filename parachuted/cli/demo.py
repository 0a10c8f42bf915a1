"""Demo: the whole loop in a temporary vault, as a person would live it."""

from __future__ import annotations

import os
import shutil
import tempfile
from argparse import Namespace
from pathlib import Path

from parachuted.bundled import bundled_folder
from parachuted.cli.client import ask
from parachuted.cli.commands import command, flag
from parachuted.cli.demo_daemon import demo_daemon, demo_events, save_note
from parachuted.cli.demo_journal import run_journal
from parachuted.cli.show import say, say_diff

_OLD = "- Start the tomatoes indoors."
_NEW = "- Plant the tomatoes out: the frost is over."


@command(
    "demo",
    "see it work, in ten seconds",
    flag("--keep", help="keep the demo's vault, and say where it is"),
    flag("--journal", help="with Daily and Brain: from an entry to the person and the project"),
)
def demo(options: Namespace) -> int:
    """Run the whole loop in a temporary vault: change, run, diff, why, undo."""
    folder = Path(tempfile.mkdtemp(prefix="parachute-demo-"))
    vault, home = folder / "Parachute", folder / "home"
    try:
        shutil.copytree(bundled_folder("vault-template"), vault)
        os.environ["PARACHUTE_HOME"] = os.fspath(home)
        if options.journal:
            run_journal(vault, home)
        else:
            _run(vault, home)
    finally:
        if options.keep:
            say(f"\nThe demo's vault is kept in {folder / 'Parachute'}.")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _run(vault: Path, home: Path) -> None:
    note = vault / "Projects" / "garden" / "AGENTS.md"
    say(
        f"A vault in {vault}. Its AGENTS.md says in its frontmatter that it watches Projects/* "
        "and Areas/*."
    )
    with demo_daemon(vault, home) as record, demo_events(record) as events:
        say("The daemon watches; the agent is the offline one: no model, no account, no cost.\n")
        _show_plan()
        say(
            f"\n1. You edit Projects/garden/AGENTS.md, as an editor would: {_OLD[2:]!r} becomes "
            f"{_NEW[2:]!r}"
        )
        save_note(note, note.read_text("utf-8").replace(_OLD, _NEW))
        change = events.wait("file.modified")
        say(f"2. noticed    {change['path']} was changed by a {change['by']}")
        task = events.wait("task.queued")
        say(f"3. queued     {task['watcher']} watches {', '.join(task['paths'])}")
        run = events.wait("run.finished")
        say(f"4. run        {run['run']}: {run['outcome']}, {run['reason']}\n")
        _show_run(run["run"])
        _show_why(vault, run["run"])
        undone = ask("POST", f"/api/runs/{run['run']}/undo", {})
        say(
            f"\n6. undo       {len(undone['runs'])} run taken back; AGENTS.md is as it was, your "
            "edit of the garden stays."
        )
    say(
        "\nThat is the whole loop. Now with notes of your own: `parachute init`, `parachute "
        "start`, then edit something that is watched."
    )


def _show_plan() -> None:
    plan = ask("POST", "/api/bubble/plan", {"path": "Projects/garden/AGENTS.md"})
    woken = ", ".join(run["watcher"] for run in plan["runs"])
    say("$ parachute bubble plan Projects/garden/AGENTS.md")
    say(f"  at most {plan['most_runs']} run ({woken}), at most ${plan['most_cost_usd']:.2f}")


def _show_run(run: str) -> None:
    for wrote in ask("GET", f"/api/runs/{run}")["wrote"]:
        say_diff(wrote["diff"])


def _show_why(vault: Path, run: str) -> None:
    lines = (vault / "AGENTS.md").read_text("utf-8").splitlines()
    number = next((number for number, line in enumerate(lines, 1) if "frost" in line), 1)
    origin = ask("GET", f"/api/why?path=AGENTS.md&line={number}")
    document = origin["runs"].get(run)
    say(f"\n5. why        $ parachute why AGENTS.md:{number}")
    say(f"  {lines[number - 1].strip()}")
    if document is not None:
        cause = document["causes"][0]
        say(
            f"  by {document['agent']} ({document['backend']}) in {run}, started by your change "
            f"of {cause['path']}"
        )
