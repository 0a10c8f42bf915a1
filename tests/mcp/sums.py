"""The server `sums`, as a vault declares it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("sums_server.py")


def declare(vault: Path, **more: object) -> None:
    """Write `.mcp.json`, with more servers than `sums`."""
    sums = {"command": sys.executable, "args": ["sums_server.py"]}
    document = {"mcpServers": {"sums": sums, **more}}
    (vault / ".mcp.json").write_text(json.dumps(document))
