"""MCP commands: the vault's tools for other agents over stdio, and the settings of those agents."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from parachuted.cli.client import ask, home_of, is_running, quoted
from parachuted.cli.commands import JSON, argument, command, flag
from parachuted.cli.show import agrees, count, say, say_json, say_table, say_text
from parachuted.errors import ParachuteError
from parachuted.processes.presence import is_locked

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


_KEY = "PARACHUTE_KEY"
_APPROVE_S = 120.0  # a program may take its time to begin
_CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode", "codex", "other")


@command(
    "mcp",
    "serve the vault's tools to another agent, over stdio",
    argument(
        "--key",
        metavar="KEY",
        help=f"act with this API key, and no more rights than it has (default: ${_KEY}, else the "
        "person's own)",
    ),
)
def mcp(options: argparse.Namespace) -> int:
    """Speak the Model Context Protocol on standard input and output, for an agent that starts this
    command. It passes everything on to the running daemon; where there is none, it is the daemon
    itself until its input ends.
    """
    from parachuted.cli.mcp_stdio import McpForwarder

    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # anything else printed is not a message
    key = options.key or os.environ.get(_KEY)
    forwarder = McpForwarder(sys.stdin.buffer, out, key=key)
    threading.Thread(target=forwarder.run, name="mcp", daemon=True).start()
    failed = False
    while not forwarder.is_over.is_set():
        forwarder.needs_daemon.wait()
        forwarder.needs_daemon.clear()
        if failed or forwarder.is_over.is_set() or is_running():
            continue
        try:
            _serve_until(forwarder.is_over)
        except ParachuteError as error:
            if not is_locked(home_of(os.environ)):  # else another one has just started
                failed, forwarder.refusal = True, error.message
    return 1 if failed else 0


@command("mcp servers", "other programs' MCP servers, which agents may use", JSON)
def mcp_servers(options: argparse.Namespace) -> int:
    """List the MCP servers of the vault's .mcp.json and those that were added, and what keeps one
    from running.
    """
    answer = ask("GET", "/api/mcps")
    if options.json:
        return say_json(answer)
    rows = [
        (one["name"], "yes" if one["approved"] else "no", one["source"], one["displayCommand"])
        for one in answer["servers"]
        if not one["builtin"]
    ]
    say_table(rows, ("SERVER", "APPROVED", "FROM", "WHAT RUNS"), nothing="No MCP servers.")
    for one in answer["servers"]:
        for problem in one["validationErrors"]:
            say(f"note     {one['name']}: {problem}")
    return 0


@command(
    "mcp approve",
    "let an MCP server run as it is now",
    argument("name", help="as `parachute mcp servers` names it"),
    argument("--digest", metavar="D", help="approve it only as it was listed with this digest"),
    flag("--trusted", help="let it run with your own rights, outside of a container"),
    flag("--yes", help="approve it as it is shown, without being asked"),
    JSON,
)
def mcp_approve(options: argparse.Namespace) -> int:
    """Show what an MCP server runs, and ask whether it may, in a container, for the agents that may
    use such tools.

    It is pinned as it was shown: its command, the files that this names, and its tools. What
    changes does not run until it is approved again.
    """
    digest = options.digest or _shown_and_agreed(options)
    if digest is None:
        return 1
    body = {"digest": digest, "trusted": options.trusted}
    path = f"/api/mcps/{quoted(options.name)}/approve"
    answer = ask("POST", path, body, timeout_s=_APPROVE_S)
    if options.json:
        return say_json(answer)
    say(f"{options.name} is approved, with {count(len(answer['tools']), 'tool')}.")
    for tool in answer["tools"]:
        say(f"  {tool['name']}")
    return 0


def _shown_and_agreed(options: argparse.Namespace) -> str | None:
    """The digest of what was shown, once a person agrees to it; None where they do not."""
    listed = ask("GET", "/api/mcps")["servers"]
    found = next((one for one in listed if one["name"] == options.name), None)
    if found is None:
        raise ParachuteError(
            f"there is no MCP server {options.name}; `parachute mcp servers` lists them"
        )
    if found["digest"] is None:
        raise ParachuteError(
            f"{options.name} cannot be approved: {'; '.join(found['validationErrors'])}"
        )
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
    argument(
        "--client",
        choices=_CLIENTS,
        default="claude-code",
        help="which program (default: claude-code)",
    ),
    argument("--key", metavar="KEY", help="the API key that it is to act with"),
    flag("--yes", help="write it, for claude-code; without, show what would be written"),
)
def install(options: argparse.Namespace) -> int:
    """Show the settings by which a program starts `parachute mcp`, and where they belong. For
    Claude Code, --yes writes them; other programs' files are never changed.
    """
    from pathlib import Path

    from parachuted.cli.mcp import CLIENTS, add_server, server_entry

    entry = server_entry(os.environ, options.key)
    settings = CLIENTS[options.client](entry)
    if not settings.is_written or not options.yes:
        say(f"For {settings.place}:")
        say_text(settings.text)
    if not settings.is_written:
        return 0
    if not options.yes:
        say("Nothing has been written. `parachute mcp install --yes` writes it.")
    elif add_server(Path(settings.place), entry):
        say(f"Written to {settings.place}. Claude Code shows it with /mcp when it next starts.")
    else:
        say(f"{settings.place} has it already.")
    return 0


def _serve_until(is_over: threading.Event) -> None:
    """Be the daemon until the input ends. Raises ParachuteError where that cannot be."""
    from parachuted.cli.daemon import serve_here

    is_serving, changing = True, threading.Lock()

    def end() -> None:
        is_over.wait()
        with changing:
            if is_serving:
                os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, name="end", daemon=True).start()
    try:
        serve_here()
    finally:
        with changing:
            is_serving = False
