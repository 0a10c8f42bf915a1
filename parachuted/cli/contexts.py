"""Contexts: the command that moves an older program's context files into folders."""

from __future__ import annotations

from argparse import Namespace

from parachuted.cli.client import ask
from parachuted.cli.commands import JSON, command, flag, group
from parachuted.cli.show import count, say, say_json, say_table

_DOES = {"create": "make", "append": "add to", "keep": "is in", "refuse": "leave"}


CONTEXTS = group(
    "contexts",
    "the context files of agents",
    "The context files that become part of agents' prompts.",
)


@command(
    "contexts migrate",
    "move old context files into folders",
    flag("--apply", help="do it; `parachute undo` takes it back"),
    JSON,
)
def migrate(options: Namespace) -> int:
    """Show what would become of an older program's context files (Chat/contexts/*.md), or move them
    into the folders they are about. Exits with 1 when something could not be moved.
    """
    answer = ask("POST" if options.apply else "GET", "/api/contexts/migration")
    code = int(options.apply and any(move["action"] == "refuse" for move in answer["moves"]))
    if options.json:
        say_json(answer)
        return code
    rows = [
        (
            move["file"],
            _DOES[move["action"]],
            move["target"],
            ", ".join(move["sections"]) or move["reason"],
        )
        for move in answer["moves"]
    ]
    say_table(
        rows,
        ("OLD FILE", "", "CONTEXT FILE", "SECTIONS ADDED, OR WHY"),
        nothing="There are no context files in Chat/contexts.",
    )
    if not options.apply and rows:
        say(
            "\nNothing was changed. `parachute contexts migrate --apply` does it; the old files "
            "are kept in Chat/contexts/migrated."
        )
    elif options.apply and answer["run"]:
        say(
            f"\nDone; {count(answer['sessions'], 'choice')} of sessions followed. Take it back "
            f"with: parachute undo {answer['run']}"
        )
    return code
