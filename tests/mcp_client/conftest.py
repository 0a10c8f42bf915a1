"""What tests of other people's MCP servers share."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from parachuted.agents.sandbox import Sandboxes
from parachuted.hooks import HookApprovals
from parachuted.mcp_client import McpServers, ServerRegistry
from parachuted.mcp_client.approved import APPROVALS, COMMAND
from parachuted.vault import VaultRoot

SCRIPT = Path(__file__).with_name("sums_server.py")


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """A vault whose `.mcp.json` declares one server, in a file of the vault."""
    folder = tmp_path / "vault"
    folder.mkdir()
    shutil.copy(SCRIPT, folder / "sums_server.py")
    (folder / "sums_server.py").chmod(0o644)
    declare(folder)
    return folder


def declare(vault: Path, **more: object) -> None:
    """Write `.mcp.json`, with more servers than `sums`."""
    sums = {"command": sys.executable, "args": ["sums_server.py"]}
    document = {"mcpServers": {"sums": sums, **more}}
    (vault / ".mcp.json").write_text(json.dumps(document))


@pytest.fixture
async def servers(vault: Path, tmp_path: Path, sandboxes: Sandboxes) -> McpServers:
    """The servers of that vault."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return McpServers(
        ServerRegistry(VaultRoot(vault), home),
        HookApprovals(home, APPROVALS, COMMAND),
        sandboxes,
        vault=vault,
        home=home,
        env=dict(os.environ),
    )
