"""The words of the command, and what it says of them."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator

import pytest

from parachuted.audit.chain import EVENT_TYPES
from parachuted.cli import main
from parachuted.cli import parser as parser_module
from parachuted.cli.parser import make_parser, parse
from tests.cli.command_line import PARACHUTE, CommandLine


def parsers(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from parsers(below, (*words, name))


ALL = dict(parsers(make_parser()))
SHOW_NOTHING = ["init", "start", "stop", "restart", "open", "demo", "pause", "resume", "mcp"]
SHOW_NOTHING += [f"vault {how}" for how in ("set", "separate", "adopt")]
SHOW_NOTHING += ["completion", "auth set", "mcp install"]
SHOW_NOTHING += ["config set", "config get", "config unset", "keys revoke", "sandbox build"]
SHOW_NOTHING += ["service install", "service uninstall", "modules new", "modules test"]
SHOW_NOTHING += [f"modules {how}" for how in ("enable", "disable", "restart", "remove")]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_the_help_of_every_command_reads_as_documentation(words):
    parser = ALL[words]
    text = parser.format_help()

    assert len(parser.description or "") > 10
    assert (parser.description or "").rstrip().endswith(".")
    assert all(line == line.rstrip() for line in text.splitlines())
    for action in parser._actions:
        assert action.help or isinstance(action, argparse._SubParsersAction), action
    if parser.get_default("run"):
        assert ("--json" in text) == (" ".join(words) not in SHOW_NOTHING)


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_is_found_and_a_group_lists_its_commands(words, capsys):
    given = [
        str(next(iter(action.choices))) if action.choices else "x"
        for action in ALL[words]._actions
        if not action.option_strings and action.nargs in {None, "+"}
    ]
    if run := ALL[words].get_default("run"):
        assert parse([*words, *given])[0] is run
        return
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert (ended.value.code, capsys.readouterr()) == (2, ("", ALL[words].format_help()))


def test_a_command_is_declared_by_its_file_and_no_other_is_imported():
    code = "import sys; from parachuted.cli.parser import parse; parse(sys.argv[1:]); "
    code += "print(*(name for name in sys.modules if name == 'parachuted.cli.audit'))"
    done = subprocess.run(
        [sys.executable, "-c", code, "keys", "list"], capture_output=True, text=True, check=True
    )
    names = [name for names in parser_module._FILES.values() for name in names]

    assert done.stdout.strip() == ""
    assert names == [words[0] for words in ALL if len(words) == 1]
    for file, declared in parser_module._FILES.items():
        found = dict(parsers(make_parser([file])))
        assert tuple(words[0] for words in found if len(words) == 1) == declared


def test_help_succeeds(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "Exit codes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["why"], "usage: parachute"),
        (["start", "--port", "x"], "usage: parachute"),
        (["status", "x"], "usage: parachute"),
        (["config", "set", "port"], "usage: parachute"),
        (["--x"], "usage: parachute"),
        (["audit", "--type", "zzz"], EVENT_TYPES[-1]),
        (["sarch", "tea"], "unknown command 'sarch'; did you mean search?"),
        (["modules", "instal", "x"], "unknown command 'instal'; did you mean install?"),
        (["keys", "zzz"], "unknown command 'zzz'; choose from "),
        (["completion", "fsh"], "unknown value 'fsh'; did you mean fish?"),
        (["doctor", "a\x1b[2J\nb\u202e.md"], "unrecognized arguments: a\\x1b[2J b\\u202e.md\n"),
    ],
)
def test_what_makes_no_sense_is_wrong_use_and_the_nearest_word_is_named(words, says, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_a_reader_that_stops_reading_is_not_a_failure_to_complain_of(command_line: CommandLine):
    done = subprocess.run(
        ["sh", "-c", f"{' '.join(PARACHUTE)} config | true"],
        env=command_line.env(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
