"""How the CLI is started, and who gets which secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parachuted.agents.claude.backend import has_transcript
from parachuted.agents.claude.launch import find_cli, make_container_environment, make_environment
from parachuted.agents.gateway.gateway import Endpoint
from parachuted.errors import AgentUnavailableError

ID = "1fc24940-e003-48b0-b21b-70563efaaa39"
ENV = {
    "PATH": "/bin",
    "ANTHROPIC_API_KEY": "the-key",
    "CLAUDE_CODE_OAUTH_TOKEN": "the-token",
    "HTTPS_PROXY": "http://proxy",
    "AWS_SECRET": "x",
    "HOME": "/root",
}
WAY = Endpoint(url="http://127.0.0.1:7", token="of-the-run", model="m")  # noqa: S106  no secret


def test_what_it_is_given_leads_to_the_gateway_alone():
    made = make_environment(ENV, Path("/f/home"), WAY)
    boxed = make_container_environment(WAY)

    for env in (made, boxed):
        assert not any(secret in json.dumps(env) for secret in ("the-key", "the-token", "AWS"))
        assert "HTTPS_PROXY" not in env
    assert (made["HOME"], made["ANTHROPIC_BASE_URL"]) == ("/f/home", WAY.url)
    assert made["ANTHROPIC_API_KEY"] == boxed["ANTHROPIC_API_KEY"] == "of-the-run"
    assert boxed["ANTHROPIC_UNIX_SOCKET"] == "/sockets/gateway.sock"
    assert boxed["HOME"] == "/home/agent"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "*",
        f"{ID}\n",
        f"../{ID}",
        ID.upper(),
        f"{ID} --resume",
        ID.replace("1", "\u0661"),
    ],
)
def test_only_a_known_uuid_is_a_session_that_can_be_resumed(text, tmp_path):
    folder = tmp_path / ".claude" / "projects" / "-somewhere"
    folder.mkdir(parents=True)
    assert not has_transcript(tmp_path, ID)
    (folder / f"{ID}.jsonl").touch()
    assert has_transcript(tmp_path, ID)
    assert not has_transcript(tmp_path, text)


def test_the_cli_is_the_bundled_one(monkeypatch, tmp_path):
    assert find_cli({}).name == "claude"

    monkeypatch.setattr("parachuted.agents.claude.launch.find_bundled_cli", lambda: None)
    with pytest.raises(AgentUnavailableError):
        find_cli({"PATH": str(tmp_path)})
    (tmp_path / "claude").touch(mode=0o755)
    assert find_cli({"PATH": str(tmp_path)}) == tmp_path / "claude"
