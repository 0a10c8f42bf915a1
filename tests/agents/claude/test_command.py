"""How the CLI is started, and who gets which secret."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from parachuted.agents import ClaudeSettings, Credential
from parachuted.agents.claude.command import find_cli, is_loopback, make_environment
from parachuted.errors import AgentUnavailableError
from parachuted.testing import ScriptedMessages, say

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
ANTHROPIC, ELSEWHERE, HERE = "https://api.anthropic.com", "https://anthropic.com.evil.example", "http://127.0.0.1:11434"
FROM_KEY, FROM_TOKEN = {"ANTHROPIC_API_KEY": "the-key"}, {"CLAUDE_CODE_OAUTH_TOKEN": "the-token"}
FROM_FILE, NOTHING = {"CLAUDE_SECURESTORAGE_CONFIG_DIR": "/vault/.claude"}, {"ANTHROPIC_API_KEY": "no-key-needed"}


@pytest.mark.parametrize(
    ("credential", "base_url", "secrets"),
    [
        (KEY, None, FROM_KEY),
        (TOKEN, None, FROM_TOKEN),
        (FILE, None, FROM_FILE),
        (None, None, {}),
        (KEY, ANTHROPIC, FROM_KEY),
        (TOKEN, ANTHROPIC, FROM_TOKEN),
        (FILE, ANTHROPIC, FROM_FILE),
        (KEY, HERE, FROM_KEY),
        (TOKEN, HERE, NOTHING),
        (FILE, HERE, NOTHING),
        (None, HERE, NOTHING),
        (TOKEN, ELSEWHERE, NOTHING),
        (TOKEN, "http://api.anthropic.com", NOTHING),
        (FILE, "https://notanthropic.com", NOTHING),
    ],
)
def test_the_process_gets_one_secret_at_most_and_a_login_goes_to_anthropic_alone(credential, base_url, secrets):
    settings = ClaudeSettings(model="m", folder=Path("/f"), user_home=Path("/u"), env=ENV, credential=credential, base_url=base_url)
    made = make_environment(settings, Path("/f/home"))

    assert {name: made.get(name) for name in {**FROM_KEY, **FROM_TOKEN, **FROM_FILE} if name in made} == secrets
    assert (made["HOME"], made.get("ANTHROPIC_BASE_URL"), "AWS_SECRET" in made) == ("/f/home", base_url, False)
    assert ("HTTPS_PROXY" in made) is (base_url != HERE)


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:80/x", True),
        ("http://localhost", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example", False),
        ("nonsense", False),
    ],
)
def test_an_address_on_this_machine_is_known(url, here):
    assert is_loopback(url) is here


def test_the_cli_is_the_bundled_one(monkeypatch, tmp_path):
    assert find_cli({}).name == "claude"

    monkeypatch.setattr("claude_agent_sdk.__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(AgentUnavailableError):
        find_cli({"PATH": str(tmp_path)})
    (tmp_path / "claude").touch(mode=0o755)
    assert find_cli({"PATH": str(tmp_path)}) == tmp_path / "claude"


async def test_the_real_cli_takes_a_login_from_the_vaults_folder_and_writes_nothing_there(tmp_path):
    vault = tmp_path / "vault"
    (vault / ".claude").mkdir(parents=True)
    login = {"accessToken": "sk-ant-oat01-x", "refreshToken": "y", "expiresAt": 4_000_000_000_000, "scopes": ["user:inference"]}
    (vault / ".claude" / ".credentials.json").write_text(json.dumps({"claudeAiOauth": login}))
    settings = ClaudeSettings(
        model="m", folder=tmp_path, user_home=tmp_path, env=os.environ, credential=replace(FILE, home=vault), base_url=None
    )
    env = make_environment(settings, tmp_path / "home")
    async with ScriptedMessages([[say("hello")]]) as api:
        command = [str(find_cli({})), "-p", "hi", "--tools", "", "--setting-sources="]
        process = await asyncio.create_subprocess_exec(
            *command, env={**env, "ANTHROPIC_BASE_URL": api.url}, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        out, _ = await process.communicate()

    assert out == b"hello\n"
    assert api.asked[0].headers["Authorization"] == "Bearer sk-ant-oat01-x"
    assert [path.name for path in vault.rglob("*")] == [".claude", ".credentials.json"]
