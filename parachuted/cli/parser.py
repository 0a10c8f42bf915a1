"""Parser: the whole command line, of what each file of this room declares.

Only the file of the chosen command is imported, so that `parachute status` costs little more than
Python itself.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Sequence

from parachuted import __version__
from parachuted.cli.commands import CommandFunction, CommandParser

_ABOUT = """\
parachuted makes a folder of markdown come alive: notes say what they watch, and when
something they watch changes, an agent brings them up to date. Every line it writes can
be explained (`parachute why`) and taken back (`parachute undo`).

Try `parachute demo` first: ten seconds, no account, in a folder of its own.
"""
_END = """\
Settings: `parachute config` lists them with what they mean. The folder for settings and state is ~/.parachute,
or $PARACHUTE_HOME. Exit codes: 0 done, 1 failed, 2 wrong use, 3 no daemon is running where one is needed.
"""  # noqa: E501

_FILES = {
    "daemon": ("start", "restart", "stop", "logs"),
    "setup": ("service", "init", "vault", "config", "auth"),
    "ask": (
        "status",
        "watches",
        "tasks",
        "runs",
        "bubble",
        "pause",
        "resume",
        "why",
        "undo",
        "doctor",
    ),
    "past": ("history", "diff", "restore"),
    "notes": ("search", "read", "new"),
    "suggestions": ("suggestions",),
    "permissions": ("permissions",),
    "agents": ("agents",),
    "agent_runs": ("stop-agents", "maintenance"),
    "usage": ("usage",),
    "audit": ("audit",),
    "keys": ("keys",),
    "hooks": ("hooks",),
    "modules": ("modules",),
    "contexts": ("contexts",),
    "sandbox": ("sandbox",),
    "backup": ("backup",),
    "completion": ("completion",),
    "demo": ("demo",),
}


def parse(arguments: Sequence[str]) -> tuple[CommandFunction, argparse.Namespace]:
    """The function of the command, and its options. Exits with 2 when they make no sense."""
    chosen = [file for file, names in _FILES.items() if arguments and arguments[0] in names]
    parser = make_parser(chosen or _FILES)
    options = parser.parse_args(arguments)
    if not hasattr(options, "run"):
        getattr(options, "group", parser).print_help(sys.stderr)
        sys.exit(2)
    command: CommandFunction = options.run
    return command, options


def make_parser(files: Iterable[str] = _FILES) -> CommandParser:
    """The command line with the commands of these files of `parachuted/cli/`; of all, without."""
    parser = CommandParser(prog="parachute", description=_ABOUT, epilog=_END)
    parser.add_argument("--version", action="version", version=f"parachuted {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for file in files:
        importlib.import_module(f"parachuted.cli.{file}").add_parsers(commands)
    return parser
