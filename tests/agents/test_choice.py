"""Which backend the settings and the logins lead to."""

from __future__ import annotations

from parachuted.agents.choice import choose_agent
from parachuted.config import load_settings
from parachuted.home_files.vault_state import state_folder


async def test_without_a_login_the_agent_is_the_offline_one_and_says_why(home, vault, tmp_path):
    chosen = choose_agent(
        load_settings(home, {}, {"vault": str(vault)}), state_folder(home, vault), {}, tmp_path
    )

    assert (chosen.backend.name, chosen.model) == ("offline", None)
    assert "no login" in chosen.reason


async def test_with_a_login_it_is_claude(home, vault, tmp_path):
    settings = load_settings(home, {}, {"vault": str(vault)})
    chosen = choose_agent(
        settings, state_folder(home, vault), {"ANTHROPIC_API_KEY": "sk-ant-SECRET"}, tmp_path
    )
    await chosen.backend.close()

    assert (chosen.backend.name, chosen.model) == ("claude", settings.agent.model)
    assert "SECRET" not in chosen.reason
