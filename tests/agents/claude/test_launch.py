"""How the CLI is started, and who gets which secret."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from parachuted.agents.backends import ClaudeSettings
from parachuted.agents.claude.launch import find_cli, make_container_environment, make_environment
from parachuted.agents.credentials import Credential
from parachuted.agents.gateway.gateway import Endpoint
from parachuted.errors import AgentUnavailableError

ENV = {
    "PATH": "/bin",
    "ANTHROPIC_API_KEY": "the-key",
    "CLAUDE_CODE_OAUTH_TOKEN": "the-token",
    "HTTPS_PROXY": "http://proxy",
    "AWS_SECRET": "x",
    "HOME": "/root",
}
KEY = Credential(kind="api_key", where="")
TOKEN = Credential(kind="oauth_token", where="")
FILE = Credential(kind="login_file", where="", home=Path("/vault"))
ANTHROPIC, HERE = "https://api.anthropic.com", "http://127.0.0.1:11434"
WAY = Endpoint(url="http://127.0.0.1:7", token="of-the-run", socket=None)  # noqa: S106  no secret


def settings_of(credential, base_url, **more):
    return ClaudeSettings(
        model="m",
        folder=Path("/f"),
        user_home=Path("/u"),
        env=ENV,
        credential=credential,
        base_url=base_url,
        platform="linux",
        **more,
    )


@pytest.mark.parametrize("credential", [KEY, TOKEN, FILE, None])
@pytest.mark.parametrize("base_url", [None, ANTHROPIC, HERE])
def test_no_credential_is_in_the_process_whatever_was_found(credential, base_url):
    settings = settings_of(credential, base_url)
    on_its_own, by_the_gateway = (
        make_environment(settings, Path("/f/home"), None),
        make_environment(settings, Path("/f/home"), WAY),
    )
    in_container = make_container_environment(WAY)

    for made in (on_its_own, by_the_gateway, in_container):
        text = json.dumps(made)
        assert not any(secret in text for secret in ("the-key", "the-token", "/vault", "AWS"))
    assert (on_its_own["HOME"], on_its_own.get("ANTHROPIC_BASE_URL")) == ("/f/home", base_url)
    assert ("HTTPS_PROXY" in on_its_own) is (base_url != HERE)


def test_what_it_is_given_leads_to_the_gateway_alone():
    made = make_environment(settings_of(KEY, None), Path("/f/home"), WAY)
    boxed = make_container_environment(WAY)

    assert (made["ANTHROPIC_BASE_URL"], "HTTPS_PROXY" in made) == (WAY.url, False)
    assert made["ANTHROPIC_API_KEY"] == boxed["ANTHROPIC_API_KEY"] == "of-the-run"
    assert boxed["ANTHROPIC_UNIX_SOCKET"] == "/sockets/gateway.sock"
    assert boxed["HOME"] == "/home/agent"


@pytest.mark.parametrize(
    ("credential", "base_url", "platform", "is_direct"),
    [
        (None, None, "darwin", True),
        (None, None, "linux", False),
        (KEY, None, "darwin", False),
        (FILE, None, "darwin", False),
        (None, HERE, "darwin", False),
    ],
)
def test_only_a_login_that_we_cannot_read_goes_round_the_gateway(
    credential, base_url, platform, is_direct
):
    settings = replace(settings_of(credential, base_url, gateway=object()), platform=platform)

    assert settings.is_direct is is_direct


def test_the_cli_is_the_bundled_one(monkeypatch, tmp_path):
    assert find_cli({}).name == "claude"

    monkeypatch.setattr("parachuted.agents.claude.launch.find_bundled_cli", lambda: None)
    with pytest.raises(AgentUnavailableError):
        find_cli({"PATH": str(tmp_path)})
    (tmp_path / "claude").touch(mode=0o755)
    assert find_cli({"PATH": str(tmp_path)}) == tmp_path / "claude"
