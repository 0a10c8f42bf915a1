"""Commands: how a file of this room declares its commands to the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from parachuted.visible import one_line

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import NoReturn

CommandFunction = Callable[[argparse.Namespace], int]
Json: TypeAlias = Any  # an answer of the daemon


class CommandParser(argparse.ArgumentParser):
    """Help that keeps a text's own lines, and error messages that name the nearest command and
    show each control character.

    A shell may take the words that are refused from a stranger's file name.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  as argparse takes them
        if "\n" in options.get("description", ""):
            options["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(**options)

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


class Argument(NamedTuple):
    names: tuple[str, ...]
    options: dict[str, Any]


class Command(NamedTuple):
    """What `parachute NAME` does and says of itself. `short` is its line in the list of commands,
    `long` what its own help says; without `run` it is a group of commands.
    """

    name: str
    short: str
    long: str
    arguments: tuple[Argument, ...] = ()
    run: CommandFunction | None = None


def argument(*names: str, **options: object) -> Argument:
    """A word, or an option with a value, of a command; an upper-case name stands for the value."""
    if not names[0].startswith("-"):
        options = {"metavar": names[0].upper(), **options}
    return Argument(names, options)


def flag(*names: str, help: str) -> Argument:  # noqa: A002  as argparse calls it
    return Argument(names, {"action": "store_true", "help": help})


JSON = flag("--json", help="print JSON")


def limit(default: int, more: str = "") -> Argument:
    says = f"how many (default: {default}{more})"
    return argument("-n", "--limit", type=int, default=default, metavar="N", help=says)


def group(name: str, short: str, long: str) -> Command:
    return Command(name, short, long)


def command(
    name: str, short: str, *arguments: Argument, long: str | None = None
) -> Callable[[CommandFunction], Command]:
    """Declare a function as the command `parachute NAME`; `NAME` may be two words, the first of
    which is a group or a command. Its own help is the function's docstring, unless `long` is given.
    """

    def declare(run: CommandFunction) -> Command:
        return Command(name, short, long or " ".join((run.__doc__ or "").split()), arguments, run)

    return declare
