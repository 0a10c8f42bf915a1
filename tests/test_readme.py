"""README and docs/api.md: every table is held against the code, and what they tell people to type can be typed."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shlex
import subprocess
import sys
from asyncio.subprocess import PIPE, STDOUT
from itertools import takewhile
from pathlib import Path

from parachuted.bubbling.patterns import parse_declaration, parse_pattern
from parachuted.cli import FAILED, NO_DAEMON, WRONG_USE
from parachuted.cli.parser import make_parser
from parachuted.config import describe_settings
from parachuted.events import FACTS
from parachuted.grants.granting import build_grant
from parachuted.grants.patterns import grant_of
from parachuted.modules.manifest import read_manifest
from tests.api.test_app import ROUTES
from tests.stories.life import Live

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
API = (ROOT / "docs/api.md").read_text("utf-8")


def table(head: str, text: str = README) -> list[list[str]]:
    """The rows of the table whose first head that is."""
    lines = text.partition(f"\n| {head} |")[2].splitlines()[2:]
    rows = list(takewhile(lambda line: line.startswith("|"), lines))
    assert rows
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands_of(parser: argparse.ArgumentParser, prefix: str = "") -> set[str]:
    """The commands that do something, in full."""
    found = {prefix} if parser.get_default("run") else set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                found |= commands_of(below, f"{prefix} {name}".strip())
    return found


def commands_in(cell: str) -> set[str]:
    """The commands that a cell of the table names: later ones leave out what the first begins with."""
    first, *others = [re.findall(r"(?<!\S)\[?([a-z][a-z-]*)\b", code) for code in codes(cell)]
    assert first[0] == "parachute"
    found = {" ".join(first[1:])}
    if "[" + first[-1] in cell:
        found.add(first[1])
    return found | {" ".join([*first[1:-1], *other]) for other in others}


def test_every_command_is_named_and_nothing_else():
    named = [command for row in table("command") for command in commands_in(row[0])]

    assert sorted(named) == sorted(commands_of(make_parser()))


def test_the_exit_codes_are_those_of_the_command():
    told = "Exit codes: 0 done, 1 failed, 2 wrong use, 3 no daemon is running where one is needed."

    assert told in README
    assert told in (make_parser().epilog or "").replace("\n", " ")
    assert (FAILED, WRONG_USE, NO_DAEMON) == (1, 2, 3)


def test_every_setting_is_described_as_it_is():
    told = [[codes(row[0])[0], row[1].replace(" or ", " | "), "".join(codes(row[2])), row[3]] for row in table("setting")]

    assert told == [list(described) for described in describe_settings()]


def test_every_event_is_described_as_it_is():
    told = {codes(row[0])[0]: (row[1], tuple(codes(row[2]))) for row in table("event")}

    assert told == {kind.name: (kind.tells, tuple(kind.fields)) for kind in FACTS.values()}


def test_every_route_is_named_and_nothing_else():
    told = []
    for row in table("call", API):
        method = codes(row[0])[0].partition(" ")[0]
        told += [f"{method} {re.split(r'[?[]', code.removeprefix(f'{method} '))[0]}" for code in codes(row[0])]

    assert sorted(told) == sorted(ROUTES)


def test_every_pattern_shown_is_one():
    patterns = [pattern for row in table("pattern") for pattern in codes(row[0])]

    assert [str(parse_pattern(pattern, "Projects/AGENTS.md")) for pattern in patterns]
    (example,) = [block for block in blocks("markdown") if "watch:" in block]
    declared = parse_declaration("AGENTS.md", re.findall(r'^  - "(.*)"$', example, re.MULTILINE))
    assert (len(declared.patterns), declared.problems) == (3, ())


def test_what_it_tells_to_type_can_be_typed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    typed = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]

    assert [words[1] for words in typed if words[0] == "make"] == ["run", "test"]
    assert set(re.findall(r"`make (\w+)", README)) | {"run", "test"} <= targets
    for words in typed:
        if words[0] != "make":
            assert words[0] == ".venv/bin/parachute"
            done = subprocess.run([sys.executable, "-m", "parachuted", *words[1:]], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")
    assert any(words[-1] == "demo" for words in typed)


def test_the_agent_with_a_shell_is_one_that_a_manifest_can_declare_and_sees_what_is_said():
    (block,) = (one for one in blocks("yaml") if "bash:" in one)
    manifest = read_manifest(f"name: keeper\nversion: 0.1.0\nmodule: module.py\n{block}")
    permissions, tidy = manifest.permissions, manifest.agents["tidy"]
    grant = build_grant(
        tidy, agent="keeper/tidy", bounds_read=grant_of(permissions.read), bounds_write=grant_of(permissions.write), entry="cli"
    )  # fmt: skip

    assert [grant.may_read(path) for path in ("Projects/a.md", "Areas/a.md", "Keeper/a.md", "Private/a.md")] == [True, True, False, False]
    assert [grant.may_write(path) for path in ("Projects/a.md", "Areas/a.md")] == [True, False]
    assert (grant.bash, grant.network) == (("git", "grep", "sed", "ls"), "none")


def test_what_a_person_types_of_it_are_commands():
    known = commands_of(make_parser())
    for line in "\n".join(blocks("console")).splitlines():
        words = shlex.split(line, comments=True)[1:]
        assert any(" ".join(words).startswith(f"parachute {command} ") for command in known), line


async def test_its_calls_work_as_printed(live: Live, home: Path, tmp_path: Path):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "parachute").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m parachuted "$@"\n')
    (programs / "parachute").chmod(0o755)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "CURL_HOME": str(programs), "PARACHUTE_HOME": str(home)}
    async with live() as life:
        for script in blocks("bash"):
            (programs / ".curlrc").write_text("silent\nshow-error\n" if "||" in script else "fail\nsilent\nshow-error\n")
            typed = "set -euo pipefail\n" + script.replace("127.0.0.1:3333", f"127.0.0.1:{life.daemon.port}")
            process = await asyncio.create_subprocess_exec("bash", "-c", typed, env=env, stdout=PIPE, stderr=STDOUT)
            told = (await process.communicate())[0].decode()
            assert process.returncode == 0, told
            assert "Traceback" not in told
            assert ("refused, as it should be" in script) == ("refused, as it should be" in told), told
    assert len(blocks("bash")) == 4


def test_commands_named_in_the_text_are_commands():
    known = commands_of(make_parser())
    named = {" ".join(re.findall(r"(?<!\S)[a-z]+\b", code)[1:]) for code in codes(README) if code.startswith("parachute ")}

    for words in named:
        assert any(command == words or words.startswith(f"{command} ") for command in known), words
