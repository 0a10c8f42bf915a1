from __future__ import annotations

import json
import subprocess
import sys

import pytest

from parachuted.cli import main, status
from parachuted.errors import NoDaemonError
from tests.cli.command_line import CommandLine


def test_it_tells_in_a_few_lines_how_the_daemon_is(running: CommandLine):
    lines = running.does("status").splitlines()

    pid = running.started()[0]
    assert lines[0].startswith(f"parachuted 0.1.0 is ok: pid {pid}, http://127.0.0.1:")
    assert lines[1].startswith(f"vault    {running.vault}: ")
    assert [line.split()[0] for line in lines[1:5]] == ["vault", "agent", "tasks", "budget"]


def test_short_and_whole_command_lines_say_the_same(running: CommandLine):
    short, whole = (json.loads(running.does("status", flag)) for flag in ("--json", "--js"))

    assert set(short) == set(whole)
    assert short["vault"] == whole["vault"]


def test_asked_in_the_short_way_it_loads_no_parser(running: CommandLine):
    code = "import sys; from parachuted.cli import main; main(['status']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=running.env(), capture_output=True, text=True, check=True
    )

    loaded = done.stdout.splitlines()[-1].split()
    assert not {"argparse", "asyncio", "pathlib", "typing"} & set(loaded)


def test_without_a_daemon_it_says_so(home, capsys):
    with pytest.raises(NoDaemonError):
        status.tell_status(as_json=True)
    assert main(["status", "--json"]) == 3
    assert capsys.readouterr() == (
        "",
        "parachute: No daemon is running; start one with `parachute start`.\n",
    )
