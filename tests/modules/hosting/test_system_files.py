from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.access.strangers import Taint
from parachuted.agents.calling import call_tool
from parachuted.errors import NotFoundError
from parachuted.modules.hosting.system_files import SystemFiles
from tests.stories.daemon_rig import save

CANARIES = [f"canary-{number:02}-of-a-secret" for number in range(15)]


@pytest.fixture
def files(home: Path, vault: Path) -> SystemFiles:
    one, two, three, four, five, six, seven, eight, nine, ten, *more = CANARIES
    eleven, twelve, thirteen, fourteen, fifteen = more
    save(
        home / "config.yaml",
        f"port: 3333\nauth_mode: remote\napi_key: {one}\nagent:\n  base_url: http://x  # was "
        f"{thirteen}\n# {fourteen}\n"
        f"  my-token: '{two}'\n",
    )
    save(
        home / "modules.yaml",
        f'---\nmodules:\n  bot:\n    config: {{"bot_token": "{three}", "chat": "7"}}\n    '
        "enabled: true\n...\n",
    )
    save(
        home / "hooks.yaml",
        f"hooks:\n  - command: MY_TOKEN={fifteen} notify\n    password: {four}\n",
    )
    save(home / "keys.yaml", f"keys: {five}\n")
    save(home / "state/x/secret.json", six)
    save(home / "run/pid", seven)
    save(
        home / "logs/daemon.log",
        f'{{"message": "x", "authorization": "Bearer {eight}"}}\nsk-ant-{nine}\n',
    )
    save(vault / ".parachute/audit/2026-01-05.jsonl", '{"event": "api_call"}\n')
    save(vault / ".claude/.credentials.json", ten)
    save(vault / "Modules/bot/module.py", f"TOKEN = '{eleven}'\nprint('hello')\n")
    save(vault / "Modules/bot/.secrets.yaml", twelve)
    save(vault / "Daily/today.md", "# Today\n")
    (home / "logs/link.log").symlink_to(home / "keys.yaml")
    return SystemFiles(home, vault)


def test_settings_logs_and_the_audit_are_there_and_nothing_else(files: SystemFiles):
    assert files.paths() == [
        "home/config.yaml",
        "home/modules.yaml",
        "home/hooks.yaml",
        "home/logs/daemon.log",
        "vault/.parachute/audit/2026-01-05.jsonl",
    ]


def test_no_secret_is_in_any_of_them_and_the_rest_can_be_read(files: SystemFiles):
    texts = {path: files.read(path) for path in files.paths()}
    reported = "\n".join(texts.values())

    assert [canary for canary in CANARIES if canary in reported] == []
    assert "port: 3333\nauth_mode: remote\n" in texts["home/config.yaml"]
    assert '"chat": "7"' in texts["home/modules.yaml"]


@pytest.mark.parametrize(
    "path",
    [
        "home/keys.yaml",
        "home/../home/keys.yaml",
        "vault/Daily/today.md",
        "home/logs/link.log",
        "",
        "/etc/passwd",
        "home/state",
    ],
)
def test_what_is_not_listed_is_not_read(files: SystemFiles, path: str):
    with pytest.raises(NotFoundError):
        files.read(path)


async def test_an_agent_lists_and_reads_and_learns_what_is_not_there(files: SystemFiles):
    tools = files.tools(Taint())
    assert (await call_tool(tools, "list_system_files", {})).text.splitlines()[
        3
    ] == "home/logs/daemon.log"
    assert (
        "port: 3333"
        in (await call_tool(tools, "read_system_file", {"path": "home/config.yaml"})).text
    )
    refused = await call_tool(tools, "read_system_file", {"path": "home/keys.yaml"})
    assert (refused.is_error, "not among the system files" in refused.text) == (True, True)


@pytest.mark.parametrize(
    ("path", "taints"),
    [("home/config.yaml", False), ("home/logs/nothing.log", False), ("home/logs/daemon.log", True)],
)
async def test_what_modules_logged_is_a_strangers(files: SystemFiles, path: str, *, taints: bool):
    taint = Taint()
    await call_tool(files.tools(taint), "read_system_file", {"path": path})
    assert bool(taint) is taints


def test_of_a_long_log_the_end_is_read(files: SystemFiles, home: Path):
    save(home / "logs/daemon.log", "old\n" * 100_000 + "the newest\n")
    text = files.read("home/logs/daemon.log")
    assert text.startswith("(the last 128 KB of 390)\n")
    assert text.endswith("the newest\n")
