"""MCP commands: the vault's tools for other agents over stdio, and the settings of those agents."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parachuted.cli.client import ask, quoted
from parachuted.cli.commands import Columns, Steps, command, verb
from parachuted.cli.show import agrees, count, say, say_each, say_table, say_text
from parachuted.errors import ParachuteError
from parachuted.home_files.private import replace_private
from parachuted.processes.presence import home_of, is_locked

NAME = "parachute"
_KEY = "PARACHUTE_KEY"
_APPROVE_S = 120.0  # a program may take its time to begin
# where each program keeps its settings; only Claude Code's are written
_PLACES = {
    "claude-code": "",
    "claude-desktop": "claude_desktop_config.json, of Settings, Developer, Edit Config",
    "cursor": "~/.cursor/mcp.json",
    "vscode": ".vscode/mcp.json, or `MCP: Open User Configuration`",
    "codex": "~/.codex/config.toml",
    "other": "the client's settings for MCP servers",
}


@command("mcp", "serve the vault's tools to another agent, over stdio")
def mcp(options: Namespace) -> int:
    """Speak the Model Context Protocol on standard input and output, for an agent that starts this
    command. It passes everything on to the running daemon; where there is none, it starts one.

    --key KEY  act with this API key, and no more rights than it has (default: $PARACHUTE_KEY, else
        the person's own)
    """
    from parachuted.cli.daemon import start_in_background
    from parachuted.cli.mcp_stdio import McpForwarder

    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # anything else printed is not a message
    refusal = None
    try:
        start_in_background()
    except ParachuteError as error:
        if not is_locked(home_of(os.environ)):  # else another one has just started
            refusal = error.message
    key = options.key or os.environ.get(_KEY)
    McpForwarder(sys.stdin.buffer, out, key=key, refusal=refusal).run()
    return 0 if refusal is None else 1


@verb("mcp servers", "other programs' MCP servers, which agents may use")
def mcp_servers(_options: Namespace) -> Steps:
    """List the MCP servers of the vault's .mcp.json and those that were added, and what keeps one
    from running.
    """
    answer = yield ask("GET /api/mcps")
    columns: Columns = {
        "SERVER": "name",
        "APPROVED": "approved",
        "FROM": "source",
        "WHAT RUNS": "displayCommand",
    }
    servers = [server for server in answer["servers"] if not server["builtin"]]
    say_table(servers, columns, nothing="No MCP servers; the vault's .mcp.json declares them.")
    for server in answer["servers"]:
        for problem in server["validationErrors"]:
            say(f"note     {server['name']}: {problem}")


@verb("mcp approve", "let an MCP server run as it is now")
def mcp_approve(options: Namespace) -> Steps:
    """Show what an MCP server runs, and ask whether it may, in a container, for the agents that may
    use such tools.

    It is pinned as it was shown: its command, the files that this names, and its tools. What
    changes does not run until it is approved again.

    name  as `parachute mcp servers` names it
    --digest D  approve it only as it was listed with this digest
    --trusted  let it run with your own rights, outside of a container
    --yes  approve it as it is shown, without being asked
    """
    digest = options.digest or _shown_and_agreed(options)
    if digest is None:
        return 1
    body = {"digest": digest, "trusted": options.trusted}
    path = f"/api/mcps/{quoted(options.name)}/approve"
    answer = yield ask(f"POST {path}", body, timeout_s=_APPROVE_S)
    say(f"{options.name} is approved, with {count(len(answer['tools']), 'tool')}.")
    say_each(f"  {tool['name']}" for tool in answer["tools"])
    return 0


def _shown_and_agreed(options: Namespace) -> str | None:
    servers = {server["name"]: server for server in ask("GET /api/mcps")["servers"]}
    found = servers.get(options.name)
    if found is None:
        how = "`parachute mcp servers` lists them"
        raise ParachuteError(f"there is no MCP server {options.name}; {how}")
    if found["digest"] is None:
        problems = "; ".join(found["validationErrors"])
        raise ParachuteError(f"{options.name} cannot be approved: {problems}")
    if not options.json:
        say(f"{options.name} runs  {found['displayCommand']}")
        say(f"its definition and files are  {found['digest']}")
    how = "with your own rights" if options.trusted else "in a container"
    if not options.yes and not agrees(f"May it run, {how}, for your agents?"):
        return None
    return str(found["digest"])


@command(
    "mcp install",
    "tell an agent's program how to start `parachute mcp`",
    f"--client ={'|'.join(_PLACES)}  which program (default: claude-code)",
)
def mcp_install(options: Namespace) -> None:
    """Show the settings by which a program starts `parachute mcp`, and where they belong. For
    Claude Code, --yes writes them; other programs' files are never changed.

    --key KEY  the API key that it is to act with
    --yes  write it, for claude-code; without, show what would be written
    """
    client, entry = options.client or "claude-code", _server_entry(options.key)
    home = os.environ.get("CLAUDE_CONFIG_DIR") or os.environ.get("HOME") or Path.home()
    place, is_written = _PLACES[client] or f"{Path(home)}/.claude.json", client == "claude-code"
    if not is_written or not options.yes:
        key = "servers" if client == "vscode" else "mcpServers"
        say(f"For {place}:")
        say_text(_toml(entry) if client == "codex" else _json({key: {NAME: entry}}))
    if is_written and not options.yes:
        say("Nothing has been written. `parachute mcp install --yes` writes it.")
    elif is_written and add_server(Path(place), entry):
        say(f"Written to {place}. Claude Code shows it with /mcp when it next starts.")
    elif is_written:
        say(f"{place} has it already.")


def _server_entry(key: str | None) -> dict[str, Any]:
    program = shutil.which("parachute")
    words = [program] if program is not None else [sys.executable, "-m", "parachuted"]
    own = {"PARACHUTE_HOME": os.environ.get("PARACHUTE_HOME"), _KEY: key}
    entry = {"type": "stdio", "command": words[0], "args": [*words[1:], "mcp"]}
    env = {name: value for name, value in own.items() if value}
    return {**entry, "env": env} if env else entry


def _toml(entry: Mapping[str, Any]) -> str:
    """JSON's texts and lists of texts are TOML's too."""
    lines = [f"{name} = {json.dumps(entry[name])}" for name in ("command", "args")]
    env = [f"{name} = {json.dumps(value)}" for name, value in entry.get("env", {}).items()]
    head = [f"[mcp_servers.{NAME}.env]"] if env else []
    return "\n".join([f"[mcp_servers.{NAME}]", *lines, *head, *env])


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def add_server(file: Path, entry: Mapping[str, object]) -> bool:
    """All else in the file stays; whether it changed. Raises ParachuteError."""
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
    data = _json(document).encode("utf-8", "backslashreplace") + b"\n"
    replace_private(file, data, mode)
    return True
