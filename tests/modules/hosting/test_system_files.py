from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from parachuted.access.strangers import Taint
from parachuted.agents.calling import call_tool
from parachuted.agents.job import ToolResult
from parachuted.errors import NotFoundError
from parachuted.modules.hosting.system_files import SystemFiles
from tests.stories.daemon_rig import save

CANARIES = [f"canary-{number:02}-of-a-secret" for number in range(17)]


SECRETS = {
    "home/config.yaml": (
        "port: 3333\nauth_mode: remote\napi_key: {}\nagent:\n  base_url: http://x  # was {}\n# {}\n"
        "  my-token: '{}'\n"
    ),
    "home/modules.yaml": (
        '---\nmodules:\n  bot:\n    config: {{"bot_token": "{}", "chat": "7"}}\n    '
        "enabled: true\n...\n"
    ),
    "home/hooks.yaml": (
        "hooks:\n  - command: MY_TOKEN={} notify\n    password: {}\n"
        "    secret: |\n      {}\n      {}\n"
    ),
    "home/keys.yaml": "keys: {}\n",
    "home/state/x/secret.json": "{}",
    "home/run/pid": "{}",
    "home/logs/daemon.log": ('{{"message": "x", "authorization": "Bearer {}"}}\nsk-ant-{}\n'),
    "vault/.parachute/audit/2026-01-05.jsonl": '{{"event": "api_call"}}\n',
    "vault/.claude/.credentials.json": "{}",
    "vault/Modules/bot/module.py": "TOKEN = '{}'\nprint('hello')\n",
    "vault/Modules/bot/.secrets.yaml": "{}",
    "vault/Daily/today.md": "# Today\n",
}


@pytest.fixture
def files(home: Path, vault: Path) -> SystemFiles:
    """Each pair of braces is a secret."""
    canaries = iter(CANARIES)
    for path, text in SECRETS.items():
        secrets = itertools.islice(canaries, text.replace("{{", "").count("{}"))
        save(home.parent / path, text.format(*secrets))
    assert list(canaries) == []
    (home / "logs/link.log").symlink_to(home / "keys.yaml")
    return SystemFiles(home, vault, Taint())


def test_settings_logs_and_the_audit_are_there_without_any_secret(files: SystemFiles):
    texts = {path: files.read(path) for path in files.paths()}
    reported = "\n".join(texts.values())

    assert list(texts) == [
        *("home/config.yaml", "home/modules.yaml", "home/hooks.yaml", "home/logs/daemon.log"),
        "vault/.parachute/audit/2026-01-05.jsonl",
    ]
    assert [canary for canary in CANARIES if canary in reported] == []
    assert '"port": "3333",\n "auth_mode": "remote"' in texts["home/config.yaml"]
    assert '"chat": "7"' in texts["home/modules.yaml"]


def test_what_is_not_listed_is_not_read(files: SystemFiles):
    for path in (
        *("home/keys.yaml", "home/../home/keys.yaml", "vault/Daily/today.md", "home/state"),
        *("home/logs/link.log", "", "/etc/passwd"),
    ):
        with pytest.raises(NotFoundError):
            files.read(path)


async def test_an_agent_lists_and_reads_and_learns_what_is_not_there(files: SystemFiles):
    tools = files.tools()

    async def read(path: str) -> ToolResult:
        return await call_tool(tools, "read_system_file", {"path": path})

    listed = (await call_tool(tools, "list_system_files", {})).text.splitlines()
    assert listed[3] == "home/logs/daemon.log"
    assert '"port": "3333"' in (await read("home/config.yaml")).text
    refused = await read("home/keys.yaml")
    assert (refused.is_error, "not among the system files" in refused.text) == (True, True)


@pytest.mark.parametrize(
    ("path", "taints"),
    [("home/config.yaml", False), ("home/logs/nothing.log", False), ("home/logs/daemon.log", True)],
)
async def test_what_modules_logged_is_a_strangers(
    files: SystemFiles, home: Path, vault: Path, path: str, *, taints: bool
):
    taint = Taint()
    await call_tool(SystemFiles(home, vault, taint).tools(), "read_system_file", {"path": path})
    assert bool(taint) is taints


def test_of_a_long_log_the_end_is_read(files: SystemFiles, home: Path):
    save(home / "logs/daemon.log", "old\n" * 100_000 + "the newest\n")
    text = files.read("home/logs/daemon.log")
    assert text.startswith("(the last 128 KB of 390)\n")
    assert text.endswith("the newest\n")
