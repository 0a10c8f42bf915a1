"""Which backend is chosen, that the heavy one waits for its first run, and what holds of every
backend that has a model.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from parachuted.agents.backends import choose_backend
from parachuted.agents.choice import choose_agent
from parachuted.agents.credentials import CredentialSource
from parachuted.config import load_settings
from parachuted.home_files.vault_state import state_folder
from parachuted.testing import ScriptedBackend, say, use

KEY = CredentialSource(kind="api_key", place="the variable ANTHROPIC_API_KEY", why="set")
HERE = "http://localhost:1"
LOGIN = CredentialSource(kind="login_file", place="your login file", why="", file=Path("/x"))


@pytest.mark.parametrize(
    ("name", "credential", "base_url", "chosen", "because"),
    [
        ("auto", None, None, "offline", "no login was found"),
        ("auto", KEY, None, "claude", "ANTHROPIC_API_KEY"),
        ("auto", LOGIN, None, "claude", "your login file"),
        ("auto", None, HERE, "claude", HERE),
        ("auto", KEY, HERE, "claude", "with the key from the variable ANTHROPIC_API_KEY"),
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
    assert shown == "claude, with the model server at http://[secret]@host:1/a@b"


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
make_backend("claude", ClaudeSettings(model="m", folder=Path("x"), env={}, gateway=None))
print([name for name in ("claude_agent_sdk", "mcp", "jsonschema", "docker", "aiohttp") if name in sys.modules])
"""  # noqa: E501
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


READS = [use("read_context", file_path="a.md")]


async def test_a_run_is_ended_after_its_turns_and_its_account_comes_first(
    claude, job, run, agent_rig
):
    claude.api.add(*[READS] * 4)
    outcome = await run(claude.backend, job(max_turns=2))

    assert "after 2 turns" in str(outcome.error)
    assert outcome.account.turns == 2
    assert len(agent_rig.calls) == 2


@pytest.mark.parametrize(
    ("limits", "says"), [({"max_turns": 2}, "after 2 turns"), ({"max_cost_usd": 0.15}, "$0.15")]
)
async def test_a_scripted_run_gives_its_account_before_it_fails(job, run, limits, says):
    outcome = await run(ScriptedBackend(READS * 4, cost_usd=0.2), job(**limits))

    assert says in str(outcome.error)
    assert outcome.account.cost_usd >= 0.2


async def test_runs_that_begin_at_once_share_one_backend_and_do_not_meet(claude, job, run):
    claude.api.add(*[lambda request: [say("for " + request.body["system"][-1]["text"])]] * 2)
    outcomes = await asyncio.gather(
        *(run(claude.backend, job(system_prompt=name)) for name in ("one", "two"))
    )

    assert [outcome.texts for outcome in outcomes] == [["for one"], ["for two"]]
