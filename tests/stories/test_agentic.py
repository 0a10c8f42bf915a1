"""The agentic test with a scripted model: it reaches the API, saves, and reports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from parachuted.agents import RunLimits
from parachuted.testing import ScriptedBackend, ScriptedMessages, say, use
from tests.agentic import NO_MODEL, daemon_to_walk, explore, walk_and_report
from tests.cli.command_line import CommandLine

ROOT = Path(__file__).resolve().parents[2]
LIMITS = RunLimits(timeout_s=40, max_turns=20, max_cost_usd=1.0)


async def test_a_scripted_agent_walks_through_the_api_and_its_report_is_kept(tmp_path):
    command_line = CommandLine(home=tmp_path / "home", vault=tmp_path / "vault", folder=tmp_path)
    script = [
        use("call_api", method="GET", path="/api/notes"),
        use("call_api", method="GET", path="/api/notes/Nowhere.md"),
        use("save_note", path="Inbox/Tea.md", text="# Tea\n"),
        use("save_note", path="../outside.md", text="no"),
        use("report", finding="a note that does not exist is refused", is_problem=False),
        use("report", finding="tea is cold", is_problem=True),
        say("that is all"),
    ]

    with daemon_to_walk(command_line) as walk:
        why = await explore(ScriptedBackend(script), walk, LIMITS)

    assert why is None
    assert walk.calls == ["GET /api/notes", "GET /api/notes/Nowhere.md"]
    assert [bad for _finding, bad in walk.findings] == [False, True]
    assert (command_line.vault / "Inbox/Tea.md").read_text() == "# Tea\n"
    assert not (tmp_path / "outside.md").exists()


async def test_the_script_lets_the_agents_program_walk_and_prints_its_report(tmp_path, capsys):
    command_line = CommandLine(home=tmp_path / "home", vault=tmp_path / "vault", folder=tmp_path)
    command_line.home.mkdir(mode=0o700)
    found = use("report", finding="the document is there", is_problem=False)
    turns = [[use("call_api", method="GET", path="/api/openapi.json")], [found], [say("done")]]
    async with ScriptedMessages(turns) as api:
        environ = {**os.environ, "PARACHUTE_AGENT_BASE_URL": api.url}
        code = await walk_and_report(command_line, environ, tmp_path / "user")

        answer = str(api.asked[1].body["messages"][-1])

    assert "200" in answer
    assert "openapi" in answer
    assert capsys.readouterr().out.splitlines() == [
        "ok      the document is there",
        "1 calls, 1 findings; it ended by itself",
    ]
    assert code == 0


def test_without_a_login_it_says_so():
    done = subprocess.run(
        [sys.executable, "-m", "tests.agentic"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout.startswith("No model: ")) == (NO_MODEL, True), done
