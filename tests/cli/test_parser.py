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
LISTINGS = [
    "status",
    "vault",
    "config",
    "watches",
    "tasks",
    "runs",
    "bubble plan",
    "bubble run",
    "why",
    "undo",
    "doctor",
    "auth status",
    "contexts migrate",
    "keys list",
    "keys create",
]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_the_help_of_every_command_reads_as_documentation(words):
    parser = ALL[words]
    text = parser.format_help()

    assert len(parser.description or "") > 10
    assert (parser.description or "").rstrip().endswith(".")
    assert all(line == line.rstrip() for line in text.splitlines())
    for action in parser._actions:
        assert action.help or isinstance(action, argparse._SubParsersAction), action


@pytest.mark.parametrize(
    "words", [words for words in ALL if not ALL[words].get_default("run")], ids=" ".join
)
def test_a_group_without_a_command_lists_its_commands_and_is_wrong_use(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(list(words))

    assert (ended.value.code, capsys.readouterr()) == (2, ("", ALL[words].format_help()))


def test_an_audit_of_a_type_that_does_not_exist_is_wrong_use_and_lists_the_types(capsys):
    for words in (["audit", "--type", "zzz"], ["audit", "graph", "--type", "zzz"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        complained = capsys.readouterr().err
        assert all(one in complained for one in EVENT_TYPES)


def test_a_command_is_declared_by_the_file_that_its_name_leads_to_and_no_other_is_imported():
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


def test_help_succeeds_and_nothing_at_all_is_wrong_use(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "Exit codes" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "nonsense",
        "why",
        "undo",
        "bubble",
        "bubble plan",
        "service",
        "auth",
        "start --port x",
        "status x",
        "config set port",
        "--x",
    ],
)
def test_what_makes_no_sense_is_wrong_use(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    assert "usage: parachute" in capsys.readouterr().err


@pytest.mark.parametrize("command", LISTINGS)
def test_every_listing_takes_json(command):
    assert "--json" in ALL[tuple(command.split())].format_help()


def test_every_command_is_found():
    rest = {
        "set": ["x", "y"],
        "why": ["f"],
        "undo": ["r"],
        "plan": ["f"],
        "run": ["f"],
        "create": ["n"],
        "revoke": ["k"],
        "test": ["e"],
        "replay": ["h"],
        "maintenance": ["x"],
        "search": ["x"],
        "read": ["x"],
        "new": ["x"],
    }
    for words, parser in ALL.items():
        if parser.get_default("run") is not None:
            more = ["x"] if words[0] == "vault" and len(words) > 1 else rest.get(words[-1], [])
            more = ["x"] if words[0] == "config" and words[-1] in {"get", "unset"} else more
            more = ["bash"] if words == ("completion",) else more
            more = ["n"] if words == ("mcp", "approve") else more
            more = ["ANTHROPIC_API_KEY"] if words == ("auth", "set") else more
            more = ["n"] if words[0] == "modules" and words[-1] not in {"list", "status"} else more
            more = (
                ["s"]
                if words[0] == "suggestions" and words[-1] in {"show", "approve", "reject", "edit"}
                else more
            )
            more = ["p"] if words[0] == "permissions" and words[-1] != "list" else more
            more = {
                ("agents", "trust"): ["f"],
                ("agents", "run"): ["a", "p"],
                ("sandbox", "explain"): ["a"],
            }.get(words, more)
            more = ["f@r"] if words in {("history",), ("diff",), ("restore",)} else more
            command, _ = parse([*words, *more])
            assert command is parser.get_default("run"), words


def test_a_reader_that_stops_reading_is_not_a_failure_to_complain_of(command_line: CommandLine):
    done = subprocess.run(
        ["sh", "-c", f"{' '.join(PARACHUTE)} config | true"],
        env=command_line.env(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_a_mistake_shows_what_a_name_that_the_shell_filled_in_would_hide(
    capsys: pytest.CaptureFixture[str],
):
    with pytest.raises(SystemExit):
        parse(["doctor", "a\x1b[2J\nparachute: all is well\u202e.md"])

    assert capsys.readouterr().err.splitlines()[-1] == (
        "parachute: error: unrecognized arguments: a\\x1b[2J parachute: all is well\\u202e.md"
    )


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["sarch", "tea"], "unknown command 'sarch'; did you mean search?"),
        (["modules", "instal", "x"], "unknown command 'instal'; did you mean install?"),
        (["keys", "zzz"], "unknown command 'zzz'; choose from "),
        (["completion", "fsh"], "unknown value 'fsh'; did you mean fish?"),
    ],
)
def test_a_misspelled_command_is_answered_with_the_nearest_one(words, reported, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)

    assert ended.value.code == 2
    assert reported in capsys.readouterr().err
