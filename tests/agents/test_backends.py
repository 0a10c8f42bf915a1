"""Which backend is chosen, that the heavy one waits for its first run, and what holds of every
backend that has a model.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from parachuted.agents.backends import ClaudeSettings, choose_backend, make_backend
from parachuted.agents.choice import choose_agent
from parachuted.agents.credentials import Credential
from parachuted.agents.job import RunResult, TextStep, ToolCallStep
from parachuted.agents.offline import OfflineBackend
from parachuted.config import load_settings
from parachuted.home_files.vault_state import state_folder
from parachuted.testing import say, use

KEY = Credential(kind="api_key", where="from the environment variable ANTHROPIC_API_KEY")
HERE = "http://localhost:1"
LOGIN = Credential(kind="login_file", where="from your login file", home=Path("/nowhere"))


@pytest.mark.parametrize(
    ("name", "credential", "base_url", "chosen", "because"),
    [
        ("auto", None, None, "offline", "no login was found"),
        ("auto", KEY, None, "claude", "ANTHROPIC_API_KEY"),
        ("auto", LOGIN, None, "claude", "your login file"),
        ("auto", None, HERE, "claude", HERE),
        ("auto", KEY, HERE, "claude", "with the key from the environment variable ANTHROPIC_API"),
        ("claude", None, None, "claude", "no login was found"),
        ("claude", KEY, None, "claude", "ANTHROPIC_API_KEY"),
        ("offline", KEY, HERE, "offline", "agent.backend"),
    ],
)
def test_the_backend_is_chosen_by_name_then_by_what_was_found(
    name, credential, base_url, chosen, because
):
    backend, reason = choose_backend(name, credential, base_url)

    assert (backend, because in reason) == (chosen, True)


def test_a_login_is_not_redirected_and_a_password_in_the_address_not_shown():
    assert "login" not in choose_backend("auto", LOGIN, HERE)[1]
    shown = choose_backend("auto", None, "http://me:hush@host:1/a@b")[1]
    assert shown == "claude, with the model server at http://host:1/a@b"


@pytest.mark.parametrize(
    ("name", "credential", "chosen", "hears"),
    [
        ("auto", KEY, "offline", True),
        ("claude", None, "claude", True),
        ("auto", None, "offline", False),
    ],
)
def test_without_the_agent_sdk_only_who_asks_for_claude_gets_it(
    monkeypatch, name, credential, chosen, hears
):
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)

    backend, reason = choose_backend(name, credential, None)

    assert backend == chosen
    assert ("pip install 'parachuted[claude]'" in reason) is hears


def test_the_backend_that_is_made_has_the_name_that_was_chosen(tmp_path):
    settings = ClaudeSettings(
        model="m", folder=tmp_path, user_home=tmp_path, env={}, credential=None, base_url=None
    )

    assert isinstance(make_backend("offline", settings), OfflineBackend)
    assert make_backend("claude", settings).name == "claude"


async def test_without_a_login_the_agent_is_the_offline_one_and_with_one_claude(
    home, vault, tmp_path
):
    settings, state = load_settings(home, {}, {"vault": str(vault)}), state_folder(home, vault)
    chosen = choose_agent(settings, state, {}, tmp_path)
    assert (chosen.backend.name, chosen.model) == ("offline", None)
    assert "no login" in chosen.reason

    chosen = choose_agent(settings, state, {"ANTHROPIC_API_KEY": "sk-ant-SECRET"}, tmp_path)
    await chosen.backend.close()
    assert (chosen.backend.name, chosen.model) == ("claude", settings.agent.model)
    assert "SECRET" not in chosen.reason


def test_a_daemon_that_has_not_run_an_agent_has_loaded_no_library_for_it():
    program = """
import sys
import parachuted.agents.sandbox.sandboxes
from pathlib import Path
from parachuted.agents.backends import ClaudeSettings, make_backend
make_backend("claude", ClaudeSettings(model="m", folder=Path("x"), user_home=Path("x"), env={}, credential=None, base_url=None))
print([name for name in ("claude_agent_sdk", "mcp", "jsonschema", "docker", "aiohttp") if name in sys.modules])
"""  # noqa: E501
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


async def test_what_is_said_called_and_finished_comes_in_order(scripted, job, run, agent_rig):
    backend = scripted(
        [say("let me look"), use("read_context", file_path="a.md")],
        [use("read_context", file_path=7), use("rm", path="/")],
    )
    outcome = await run(backend, job())

    assert outcome.error is None
    assert outcome.steps[0] == TextStep(text="let me look")
    calls = outcome.all(ToolCallStep)
    assert [(call.tool, call.result.is_error) for call in calls] == [
        ("read_context", False),
        ("read_context", True),
        ("rm", True),
    ]
    assert calls[0].result.text == "read_context did it"
    assert "7 is not of type 'string'" in calls[1].result.text
    assert agent_rig.calls == [("read_context", {"file_path": "a.md"})]
    assert isinstance(outcome.account.session_id, str)
    assert outcome.all(RunResult) == [outcome.account]


async def test_a_run_is_ended_after_its_turns_and_its_account_comes_first(
    scripted, job, run, agent_rig
):
    outcome = await run(scripted(*[[use("read_context", file_path="a.md")]] * 4), job(max_turns=2))

    assert "after 2 turns" in str(outcome.error)
    assert outcome.account.turns == 2
    assert len(agent_rig.calls) == 2


# That the CLI is ended by its money, its time and its reader is shown in claude/test_backend.py.


@pytest.mark.parametrize("scripted", ["scripted"], indirect=True)
async def test_a_run_is_ended_when_its_money_is_spent_after_its_account(scripted, job, run):
    turns = [[use("read_context", file_path=path)] for path in ("a.md", "b.md")]
    outcome = await run(scripted(*turns, cost_usd=0.2), job(max_cost_usd=0.15))

    assert "$0.15" in str(outcome.error)
    assert outcome.account.cost_usd >= 0.2


@pytest.mark.parametrize("scripted", ["scripted"], indirect=True)
async def test_a_run_is_ended_when_its_time_is_up_or_with_the_task_that_reads_it(
    scripted, job, run
):
    outcome = await run(scripted(20.0), job(timeout_s=0.1))

    assert "ran out of time" in str(outcome.error)
    assert outcome.seconds < 15
    async with asyncio.timeout(30):
        task = asyncio.get_running_loop().create_task(run(scripted(20.0), job()))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_runs_that_begin_at_once_share_one_backend_and_do_not_meet(claude, job, run):
    claude.api.add(*[lambda request: [say("for " + request.body["system"][-1]["text"])]] * 2)
    outcomes = await asyncio.gather(
        *(run(claude.backend, job(system_prompt=name)) for name in ("one", "two"))
    )

    assert [outcome.texts for outcome in outcomes] == [["for one"], ["for two"]]
