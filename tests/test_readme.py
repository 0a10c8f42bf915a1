"""README and docs/: what they tell people to type can be typed, and prints what they say."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shlex
import shutil
import sys
import time
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Mapping
from pathlib import Path

import pytest

from parachuted.access.grant import build_grant, grant_of
from parachuted.bubbling.patterns import parse_declaration, parse_pattern
from parachuted.cli import FAILED, NO_DAEMON, WRONG_USE
from parachuted.cli.parser import make_parser
from parachuted.home_files.bundled import bundled_folder
from parachuted.modules.registry.manifest import read_manifest
from tests.stories.daemon_rig import Live

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text("utf-8")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}
README = PAGES["README.md"]
EVERY = "\n".join(PAGES.values())


def codes(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def blocks(language: str, text: str = EVERY) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def pages_with(language: str) -> list[str]:
    return [name for name, text in PAGES.items() if blocks(language, text)]


def commands_of(parser: argparse.ArgumentParser, prefix: str = "") -> set[str]:
    """The commands that do something, in full."""
    found = {prefix} if parser.get_default("run") else set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                found |= commands_of(below, f"{prefix} {name}".strip())
    return found


@pytest.fixture
def typing(home: Path, tmp_path: Path) -> Mapping[str, str]:
    """The environment of a person who types: `parachute` is on the PATH, and curl fails where the
    API refuses.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "parachute").write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m parachuted "$@"\n'
    )
    (programs / "parachute").chmod(0o755)
    (programs / ".curlrc").write_text("fail\nsilent\nshow-error\n")
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CURL_HOME": str(programs),
        "PARACHUTE_HOME": str(home),
    }


def test_the_exit_codes_are_those_of_the_command():
    reported = (
        "Exit codes: 0 done, 1 failed, 2 wrong use, 3 no daemon is running where one is needed."
    )

    assert reported in (make_parser().epilog or "").replace("\n", " ")
    assert (FAILED, WRONG_USE, NO_DAEMON) == (1, 2, 3)


def test_every_pattern_shown_is_one():
    rows = (
        PAGES["docs/watching.md"].partition("| pattern |")[2].partition("\n\n")[0].splitlines()[2:]
    )
    patterns = [pattern for row in rows for pattern in codes(row.split(" | ")[0])]

    assert [str(parse_pattern(pattern, "Projects/AGENTS.md")) for pattern in patterns]
    assert len(patterns) > 12
    for example in blocks("markdown"):
        declared = parse_declaration(
            "AGENTS.md", re.findall(r'^  - "(.*)"$', example, re.MULTILINE)
        )
        assert (len(declared.patterns), declared.problems) == (3, ())


def test_what_the_readme_tells_to_type_first_can_be_typed():
    """It is the demo, which tests/cli/test_demo.py lets run."""
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = [line for block in blocks("sh", README) for line in block.splitlines()]
    typed = [shlex.split(line, comments=True) for line in lines]

    assert [words[1] for words in typed if words[0] == "make"] == ["run", "test"]
    assert set(re.findall(r"`make (\w+)", EVERY)) | {"run", "test"} <= targets
    assert [words for words in typed if words[0] != "make"] == [[".venv/bin/parachute", "demo"]]


def test_the_agent_with_a_shell_can_be_declared_and_sees_what_is_said():
    (block,) = (one for one in blocks("yaml") if "bash:" in one)
    manifest = read_manifest(f"name: keeper\nversion: 0.1.0\nmodule: module.py\n{block}")
    permissions, tidy = manifest.permissions, manifest.agents["tidy"]
    grant = build_grant(
        tidy,
        agent="keeper/tidy",
        bounds_read=grant_of(permissions.read),
        bounds_write=grant_of(permissions.write),
        entry="cli",
    )

    assert [
        grant.may_read(path)
        for path in ("Projects/a.md", "Areas/a.md", "Keeper/a.md", "Private/a.md")
    ] == [True, True, False, False]
    assert [grant.may_write(path) for path in ("Projects/a.md", "Areas/a.md")] == [True, False]
    assert (grant.bash, grant.network) == (("git", "grep", "sed", "ls"), "none")


def test_what_is_shown_without_being_run_are_commands_with_their_options():
    parser = make_parser()
    lines = [
        line
        for block in [*blocks("text"), *blocks("sh")]
        for line in block.splitlines()
        if line.startswith("parachute ")
    ]

    for line in lines:
        assert parser.parse_args(shlex.split(line, comments=True)[1:]).run, line
    assert len(lines) > 20


def commands_of_modules() -> set[str]:
    """The commands of parachuted's own modules, as `daily add`."""
    return {
        f"{file.parent.name} {name}"
        for file in bundled_folder("modules").glob("*/*.py")
        for name in re.findall(r'@command\("([a-z-]+)"', file.read_text("utf-8"))
    }


def test_commands_named_in_the_text_are_commands():
    known = {*commands_of(make_parser()), *commands_of_modules()}
    alone = {command.partition(" ")[0] for command in commands_of_modules()}  # its status
    named = {
        " ".join(re.findall(r"(?<!\S)[a-z][a-z-]+\b", code)[1:])
        for code in codes(EVERY)
        if code.startswith("parachute ")
    }

    for words in named:
        is_known = any(words == command or words.startswith(f"{command} ") for command in known)
        assert is_known or words in alone, words
    assert len(named) > 40


@pytest.mark.parametrize("page", pages_with("bash"))
async def test_its_scripts_work_as_printed(page: str, live: Live, typing: Mapping[str, str]):
    async with live() as daemon_rig:
        for script in blocks("bash", PAGES[page]):
            is_refused = "refused, as it should be" in script
            command_line = "set -euo pipefail\n" + script.replace(
                "127.0.0.1:3333", f"127.0.0.1:{daemon_rig.daemon.port}"
            )
            process = await asyncio.create_subprocess_exec(
                "bash", "-c", command_line, env=typing, stdout=PIPE, stderr=STDOUT
            )
            printed = (await process.communicate())[0].decode()
            assert process.returncode == 0, printed
            assert "Traceback" not in printed
            assert is_refused == ("refused, as it should be" in printed), printed


RUN = re.compile(r"\br-\d{8}-\d{6}-\d+-[0-9a-f]{8}\b")


def without_what_differs(text: str) -> str:
    """The text without times, ids, digests, the widths of columns, and the prompt's digest."""
    text = re.sub(r"\b[rc]-\d{8}-\d{6}-\d+-[0-9a-f]{8}\b", "<id>", text)
    text = re.sub(r"\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?", "<time>", text)
    text = re.sub(r"\b[0-9a-f]{8,16}\b", "<digest>", text)
    return "\n".join(re.sub(r" +", " ", line).rstrip() for line in text.strip().splitlines())


@pytest.mark.parametrize("page", pages_with("console"))
async def test_its_sessions_print_what_is_shown(
    page: str, live: Live, vault: Path, typing: Mapping[str, str]
):
    shutil.copytree(bundled_folder("vault-template"), vault, dirs_exist_ok=True)
    runs: dict[str, str] = {}
    async with live():
        for session in re.split(
            r"^\$ ", "\n".join(blocks("console", PAGES[page])), flags=re.MULTILINE
        )[1:]:
            command, _, shown = session.partition("\n")
            command = RUN.sub(lambda found: runs[found[0]], command)
            deadline, printed = time.monotonic() + 120, None
            while printed is None or (
                "undo" not in command
                and without_what_differs(printed) != without_what_differs(shown)
            ):
                assert time.monotonic() < deadline, f"{command} prints\n{printed}\nand not\n{shown}"
                process = await asyncio.create_subprocess_exec(
                    "bash", "-c", command, env=typing, cwd=vault, stdout=PIPE, stderr=STDOUT
                )
                printed = (await process.communicate())[0].decode()
            assert without_what_differs(printed) == without_what_differs(shown)
            runs.update(zip(RUN.findall(shown), RUN.findall(printed), strict=True))
