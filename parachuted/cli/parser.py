"""Parser: the whole command line. Only the file of the chosen command is imported."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Sequence

from parachuted import __version__
from parachuted.cli.commands import Command, CommandFunction, CommandParser
from parachuted.errors import ParachuteError

_ABOUT = """\
parachuted makes a folder of markdown come alive: notes say what they watch, and when
something they watch changes, an agent brings them up to date. Every line it writes can
be explained (`parachute why`) and taken back (`parachute undo`).

Try `parachute demo` first: ten seconds, no account, in a folder of its own.
"""
_END = """\
Modules add commands of their own, such as `parachute daily add "Sowed the beans."`; while the daemon runs,
`parachute daily --help` lists those of the module daily.

Settings: `parachute config` lists them with what they mean. The folder for settings and state is ~/.parachute,
or $PARACHUTE_HOME. Exit codes: 0 done, 1 failed, 2 wrong use, 3 no daemon is running where one is needed.
"""  # noqa: E501

_FILES = {
    "daemon": ("start", "stop", "restart", "logs"),
    "service": ("service",),
    "setup": ("init", "vault", "config", "auth", "completion"),
    "ask": (
        *("status", "watches", "tasks", "runs", "bubble"),
        *("pause", "resume", "why", "undo", "doctor", "history", "diff", "restore"),
    ),
    "notes": ("search", "read", "new", "contexts"),
    "suggestions": ("suggestions",),
    "chat": ("chat",),
    "agents": ("agents", "stop-agents", "maintenance", "permissions", "usage", "sandbox"),
    "audit": ("audit",),
    "keys": ("keys", "open", "tls"),
    "hooks": ("hooks",),
    "modules": ("modules",),
    "mcp": ("mcp",),
    "backup": ("backup",),
    "demo": ("demo",),
}


def parse(arguments: Sequence[str]) -> tuple[CommandFunction, argparse.Namespace]:
    if sys.flags.optimize > 1:
        raise ParachuteError(
            "commands are read from docstrings: unset PYTHONOPTIMIZE, and leave -OO away"
        )
    chosen = [file for file, names in _FILES.items() if arguments and arguments[0] in names]
    if arguments and not chosen and not arguments[0].startswith("-"):
        from parachuted.cli.module_commands import find_module_command

        if (found := find_module_command(arguments)) is not None:
            return found
    parser = make_parser(chosen or _FILES)
    options = parser.parse_args(arguments)
    if not hasattr(options, "run"):
        getattr(options, "group", parser).print_help(sys.stderr)
        sys.exit(2)
    command: CommandFunction = options.run
    return command, options


def make_parser(files: Iterable[str] = _FILES) -> CommandParser:
    parser = CommandParser(prog="parachute", description=_ABOUT, epilog=_END)
    parser.add_argument("--version", action="version", version=f"parachuted {__version__}")
    commands = {"": parser.add_subparsers(title="commands", metavar="COMMAND")}
    parsers: dict[str, CommandParser] = {}
    for file in files:
        module = vars(importlib.import_module(f"parachuted.cli.{file}"))
        for declared in [value for value in module.values() if isinstance(value, Command)]:
            above, _, word = declared.name.rpartition(" ")
            if above not in commands:
                commands[above] = parsers[above].add_subparsers(metavar="COMMAND")
            made = commands[above].add_parser(word, help=declared.short, description=declared.long)
            made.set_defaults(**{"run": declared.run} if declared.run else {"group": made})
            for names, options in declared.arguments:
                made.add_argument(*names, **options)
            parsers[declared.name] = made
    return parser
