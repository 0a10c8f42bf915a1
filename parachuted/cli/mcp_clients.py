"""MCP clients: what each of them needs in its settings to start `parachute mcp`, and writing it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from parachuted.errors import ParachuteError

NAME = "parachute"


class McpClientSettings(NamedTuple):
    """Where a client keeps its settings, and what belongs there; `is_written`: we write it, for all
    others it is shown.
    """

    place: str
    text: str
    is_written: bool = False


def server_entry(env: Mapping[str, str], key: str | None) -> dict[str, object]:
    """How a client starts the command, as most of them have it."""
    program = shutil.which("parachute", path=env.get("PATH"))
    words = [program] if program is not None else [sys.executable, "-m", "parachuted"]
    own = {
        **({"PARACHUTE_HOME": env["PARACHUTE_HOME"]} if env.get("PARACHUTE_HOME") else {}),
        **({"PARACHUTE_KEY": key} if key else {}),
    }
    return {
        "type": "stdio",
        "command": words[0],
        "args": [*words[1:], "mcp"],
        **({"env": own} if own else {}),
    }


def _servers(place: str, key: str = "mcpServers") -> Callable[[Mapping[str, object]], Any]:
    return lambda entry: McpClientSettings(place, _json({key: {NAME: entry}}))


def _toml(entry: Mapping[str, object]) -> McpClientSettings:
    """JSON's texts and lists of texts are TOML's too."""
    lines = [f"{name} = {json.dumps(entry[name])}" for name in ("command", "args")]
    env = entry.get("env")
    lines += [f"[mcp_servers.{NAME}.env]"] if isinstance(env, dict) else []
    lines += [f"{name} = {json.dumps(one)}" for name, one in dict(env or {}).items()]  # type: ignore[call-overload]
    return McpClientSettings("~/.codex/config.toml", "\n".join([f"[mcp_servers.{NAME}]", *lines]))


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


CLIENTS: Mapping[str, Callable[[Mapping[str, object]], McpClientSettings]] = {
    "claude-code": lambda entry: McpClientSettings(
        str(claude_settings(os.environ)), _json({"mcpServers": {NAME: entry}}), is_written=True
    ),
    "claude-desktop": _servers("claude_desktop_config.json, of Settings, Developer, Edit Config"),
    "cursor": _servers("~/.cursor/mcp.json"),
    "vscode": _servers(".vscode/mcp.json, or `MCP: Open User Configuration`", "servers"),
    "codex": _toml,
    "other": _servers("the client's settings for MCP servers"),
}


def claude_settings(env: Mapping[str, str]) -> Path:
    """The file in which Claude Code keeps the servers of a person."""
    folder = env.get("CLAUDE_CONFIG_DIR") or env.get("HOME")
    return (Path(folder) if folder else Path.home()) / ".claude.json"


def add_server(file: Path, entry: Mapping[str, object]) -> bool:
    """Put the entry into the file and leave all else as it says; whether it changed. A link stays
    one.

    Raises ParachuteError where the file is not what it should be.
    """
    file = file.resolve()
    try:
        text = file.read_text("utf-8")
        document = json.loads(text) if text.strip() else {}
        mode = stat.S_IMODE(file.stat().st_mode)
    except FileNotFoundError:
        document, mode = {}, 0o600
    except ValueError as error:
        raise ParachuteError(f"{file} is not JSON; mend it, then try again") from error
    servers = document.setdefault("mcpServers", {}) if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        raise ParachuteError(f"{file} is not what Claude Code writes; nothing was changed")
    if servers.get(NAME) == entry:
        return False
    servers[NAME] = dict(entry)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(_json(document).encode("utf-8", "backslashreplace") + b"\n")
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    return True
