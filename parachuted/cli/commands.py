"""Commands: how a file of this room declares what `parachute NAME` does.

The manual of a command is the docstring of its function: what it does, then a line for each word
and option, with two spaces before what that means. `name?` may be left out, `names*` and `names+`
are several; `--name` is a flag, `--name VALUE` has a value, `--name* VALUE` may be given more than
once. `N=20..500` is a number up to 500, 20 where none is given, and `=this|that` is one of these.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeAlias

from parachuted.cli.show import say_json
from parachuted.texts.visible import one_line

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import NoReturn

Json: TypeAlias = Any  # an answer of the daemon
Columns: TypeAlias = Mapping[str, str | Callable[[Any], object]]  # of a table
CommandFunction: TypeAlias = Callable[[argparse.Namespace], int | None]  # None: 0
Steps: TypeAlias = Generator[Any, Any, Any]  # of a verb

JSON = "--json  print JSON"
_NUMBERS = ("N", "PORT")


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


class Command(NamedTuple):
    """`short` is its line in the list, `long` its own help; without `run` it is a group."""

    name: str
    short: str
    long: str
    arguments: tuple[tuple[list[str], dict[str, Any]], ...] = ()
    run: CommandFunction | None = None


def command(
    name: str, short: str, more: str = "", *, long: str | None = None
) -> Callable[[Callable[[Any], int | None]], Command]:
    """Declare a function as the command `parachute NAME`, of one or two words. Its own help is
    `long`, the function's docstring, or `short`; `more` are lines of the manual that several share.
    """

    def declare(run: CommandFunction) -> Command:
        about, lines = list[str](), list[list[str]]()
        for line in map(str.strip, f"{run.__doc__ or ''}\n{more}".split("\n")):
            what, _, means = line.partition("  ")
            if means:
                lines.append([what, means.strip()])
            elif lines:
                lines[-1][1] = f"{lines[-1][1]} {line}".rstrip()
            else:
                about.append(line)
        text = " ".join(filter(None, about)) or f"{short[0].upper()}{short[1:]}."
        arguments = tuple(_argument(what, means) for what, means in lines)
        return Command(name, short, long or text, arguments, run)

    return declare


def verb(
    name: str, short: str, more: str = ""
) -> Callable[[Callable[[argparse.Namespace], Steps]], Command]:
    """Declare a command that knows --json. Its function yields the answer, is sent it back, and
    shows it; with --json the answer is printed instead. `yield answer, failed` or a returned 1 make
    the exit code 1.
    """

    def declare(steps_of: Callable[[argparse.Namespace], Steps]) -> Command:
        def run(options: argparse.Namespace) -> int:
            return carry_out(steps_of(options), as_json=options.json)

        run.__doc__ = steps_of.__doc__
        return command(name, short, f"{more}\n{JSON}")(run)

    return declare


def carry_out(steps: Steps, *, as_json: bool) -> int:
    """Give the steps of a verb back what they yield, or print the first as JSON; the exit code."""
    answer, code = None, 0
    while True:
        try:
            found = steps.send(answer)
        except StopIteration as ended:
            return ended.value or code
        answer, failed = found if isinstance(found, tuple) else (found, False)
        code = int(bool(failed))
        if as_json:
            say_json(answer)
            return code


def _argument(what: str, means: str) -> tuple[list[str], dict[str, Any]]:
    """Names and options, as argparse adds an argument."""
    name, _, value = what.partition(" ")
    shown, _, usual = value.partition("=")
    names, often = name.rstrip("?*+").split("/"), name[-1]
    is_option, is_several = name.startswith("-"), often in "?*+"
    options: dict[str, Any] = {"help": argparse.SUPPRESS if means == "hidden" else means}
    if is_option and not value:
        return names, {**options, "action": "store_true"}
    if is_several:
        is_repeated = is_option and often == "*"
        options |= {"action": "append"} if is_repeated else {"nargs": often}
    if "|" in usual:
        options["choices"] = usual.split("|")
    elif shown in _NUMBERS:
        first, _, most = usual.partition("..")
        options["type"] = _number_up_to(int(most)) if most else int
        options["default"] = int(first) if first else None
    if shown or not is_option:
        options["metavar"] = shown or names[0].upper()
    return names, options


def _number_up_to(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        return max(1, min(int(text), most))

    return number
