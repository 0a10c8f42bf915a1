"""Demo: the whole loop in a temporary vault, as a person would live it."""

from __future__ import annotations

import os
import shutil
import tempfile
from argparse import Namespace
from pathlib import Path
from urllib.parse import quote

from parachuted.bundled import bundled_folder
from parachuted.cli.client import ask
from parachuted.cli.commands import command, flag
from parachuted.cli.demo_bot import run_bot
from parachuted.cli.demo_daemon import demo_daemon, demo_events, save_note, wait_for_modules
from parachuted.cli.demo_story import run_story
from parachuted.cli.show import say, say_diff, say_lines

_PERSON = "Brain/entities/people/kim-lee.md"
_PROJECT = "Projects/garden/AGENTS.md"
_DAY = "Daily/journals/2026-02-24.md"
_ENTRY = "# Noon\n\nKim Lee brought seeds of black beans for the garden.\n"
_QUESTION = "Who grows beans?"
_PATTERN = "Brain/entities/people/*.md"


def run_journal(vault: Path, home: Path) -> None:
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
        wait_for_modules()
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
    say("\nFor a journal of your own: `parachute init --with daily,brain,chat`.")


def _install(vault: Path, home: Path, name: str) -> None:
    from parachuted.modules.actions import ModuleActions
    from parachuted.modules.registry.approvals import ModuleApprovals

    actions = ModuleActions(ModuleApprovals(home, vault, env=os.environ))
    shown = actions.install(f"parachute://{name}", path=None, dev=False, trust="trusted")
    actions.approve(name, shown["hash"], "trusted")


_OLD = "- Start the tomatoes indoors."
_NEW = "- Plant the tomatoes out: the frost is over."


@command(
    "demo",
    "see it work, in ten seconds",
    flag("--keep", help="keep the demo's vault, and say where it is"),
    flag("--journal", help="with Daily and Brain: from an entry to the person and the project"),
    flag("--bot", help="with a bot in a chat, on a stand-in for a Matrix server on this machine"),
    flag("--story", help="with Chat too: the whole story, step by step, and how to do each step"),
)
def demo(options: Namespace) -> int:
    """Run the whole loop in a temporary vault: change, run, diff, why, undo."""
    folder = Path(tempfile.mkdtemp(prefix="parachute-demo-"))
    vault, home = folder / "Parachute", folder / "home"
    try:
        shutil.copytree(bundled_folder("vault-template"), vault)
        os.environ["PARACHUTE_HOME"] = os.fspath(home)
        if options.story:
            run_story(vault, home)
        elif options.bot:
            run_bot(vault, home)
        elif options.journal:
            run_journal(vault, home)
        else:
            _run(vault, home)
    finally:
        if options.keep:
            say(f"\nThe demo's vault is kept in {folder / 'Parachute'}.")
        else:
            from parachuted.modules.registry.copies import remove_tree

            remove_tree(folder)  # copies of modules are there, which cannot be written
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
