"""Commands: how a file of this room declares what `parachute NAME` does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from parachuted.cli.client import ask, quoted
from parachuted.cli.show import say_json
from parachuted.texts.visible import one_line

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import NoReturn

Json: TypeAlias = Any  # an answer of the daemon
Columns: TypeAlias = Mapping[str, str | Callable[[Any], object]]  # of a table
CommandFunction: TypeAlias = Callable[[argparse.Namespace], int | None]  # None: 0


class CommandParser(argparse.ArgumentParser):
    """Messages name the nearest command, and spell control characters out: a shell may take the
    words from a stranger's file name.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  as argparse takes them
        if "\n" in options.get("description", ""):
            options["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is None or value in action.choices:
            return
        import difflib

        choices = list(map(str, action.choices))
        near = difflib.get_close_matches(str(value), choices, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(choices)}"
        is_command = isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
        what = f"unknown {'command' if is_command else 'value'} {str(value)!r}"
        raise argparse.ArgumentError(action, f"{what}; {hint}")


class Argument(NamedTuple):
    names: tuple[str, ...]
    options: dict[str, Any]


class Command(NamedTuple):
    """`short` is its line in the list, `long` its own help; without `run` it is a group."""

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


def limit(default: int, most: int, more: str = "") -> Argument:
    def number(text: str) -> int:
        return max(1, min(int(text), most))

    says = f"how many (default: {default}{more})"
    return argument("-n", "--limit", type=number, default=default, metavar="N", help=says)


def group(name: str, short: str, long: str) -> Command:
    return Command(name, short, long)


def command(
    name: str, short: str, *arguments: Argument, long: str | None = None
) -> Callable[[CommandFunction], Command]:
    """Declare a function as the command `parachute NAME`, of one or two words. Its own help is
    `long`, the function's docstring, or `short`.
    """

    def declare(run: CommandFunction) -> Command:
        about = long or " ".join((run.__doc__ or f"{short[0].upper()}{short[1:]}.").split())
        return Command(name, short, about, arguments, run)

    return declare


def verb(
    name: str,
    short: str,
    request: str | Callable[[argparse.Namespace], Json],
    *arguments: Argument,
    fails: Callable[[Json], object] = lambda _answer: False,
    long: str | None = None,
) -> Callable[[Callable[[Json, argparse.Namespace], None]], Command]:
    """Declare a function that shows the daemon's answer as the command `parachute NAME`.

    `request`: such as `GET /api/runs/{name}`, with an option's value in braces, or a function that
    asks. `fails`: whether the exit code is 1 after that answer.
    """

    def declare(show: Callable[[Json, argparse.Namespace], None]) -> Command:
        def run(options: argparse.Namespace) -> int:
            answer = request(options) if callable(request) else ask(_filled(request, options))
            if options.json:
                say_json(answer)
            else:
                show(answer, options)
            return int(bool(fails(answer)))

        run.__doc__ = show.__doc__
        return command(name, short, *arguments, JSON, long=long)(run)

    return declare


def _filled(request: str, options: argparse.Namespace) -> str:
    return request.format_map({key: quoted(str(value)) for key, value in vars(options).items()})
