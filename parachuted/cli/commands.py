"""Commands: how a file of this room declares its commands to the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

from parachuted.visible import one_line

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import NoReturn

CommandFunction = Callable[[argparse.Namespace], int]


class CommandParser(argparse.ArgumentParser):
    """Help that keeps the text's own lines, and error messages that name the nearest command and
    show each control character.

    A shell may take the words that are refused from a stranger's file name.
    """

    def __init__(self, **options: object) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """As argparse does, but name the nearest choice in place of the whole list."""
        if action.choices is None or value in action.choices:
            return
        import difflib

        near = difflib.get_close_matches(str(value), map(str, action.choices), n=1)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else f"choose from {', '.join(map(str, action.choices))}"
        )
        what = (
            "unknown command"
            if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
            else "unknown value"
        )
        raise argparse.ArgumentError(action, f"{what} {str(value)!r}; {hint}")


Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"  # noqa: SLF001  argparse has no public name


def add_command(
    commands: Commands, name: str, run: CommandFunction | None, short: str, long: str
) -> CommandParser:
    """Declare a command that `run` runs, or without it a group of commands.

    `short` is its line in the list of commands, `long` what its own help says.
    """
    parser = commands.add_parser(name, help=short, description=long)
    parser.set_defaults(**({"group": parser} if run is None else {"run": run}))
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    """Let a command print JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON")
