"""MCP commands: the vault's tools for other agents over stdio, and the settings of those agents.

A client keeps `parachute mcp` for hours while daemons come and go: a request waits for the next
one, and the session is opened again there. What a daemon may have done already is never sent twice.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import stat
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from parachuted.cli.client import ask, found_daemon, quoted
from parachuted.cli.commands import Columns, Steps, command, verb
from parachuted.cli.show import agrees, count, say, say_each, say_table, say_text
from parachuted.errors import ParachuteError
from parachuted.home_files.private import replace_private
from parachuted.processes.presence import home_of, is_locked

NAME = "parachute"
_KEY = "PARACHUTE_KEY"
_APPROVE_S = 120.0  # a program may take its time to begin
_LARGEST = 2 << 20
_PATH = "/mcp"
_AT_ONCE = 8
_PATIENCE_S, _STEP_S, _CALL_S = 15.0, 0.02, 600.0
_PARSE_ERROR, _FAILED = -32700, -32000
_OK, _NOT_FOUND = 200, 404
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
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


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _NotSentError(Exception): ...


class McpForwarder:
    """Passes each line to the daemon over HTTP, and its answers back."""

    def __init__(
        self, lines: IO[bytes], out: IO[bytes], *, key: str | None, refusal: str | None
    ) -> None:
        """`key` None: as the person at this machine. `refusal`: why there is no daemon."""
        self._lines, self._out, self._key = lines, out, key
        self._writing, self._opening = threading.Lock(), threading.Lock()
        self._opened, self._version = b"", ""
        self._session: str | None = None
        self._refusal = refusal
        self._is_over = threading.Event()

    def run(self) -> None:
        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for line in self._messages():
                    self._take(line, pool.submit)
        finally:
            self._end_session()
            self._is_over.set()

    def _messages(self) -> Iterator[bytes]:
        while line := self._lines.readline(_LARGEST + 1):
            if len(line) <= _LARGEST:
                yield line
                continue
            self._say_error(None, _PARSE_ERROR, f"a message has at most {_LARGEST >> 20} MB")
            while line and not line.endswith(b"\n"):
                line = self._lines.readline(_LARGEST)

    def _take(self, line: bytes, submit: Callable[..., object]) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._say_error(None, _PARSE_ERROR, "this line is not JSON")
            return
        if not isinstance(message, dict):
            self._say_error(None, _PARSE_ERROR, "a message is a JSON object")
        elif "id" in message and message.get("method") not in {None, "initialize"}:
            submit(self._forward, line, message)
        else:
            self._forward(line, message)

    def _forward(self, line: bytes, message: Mapping[str, Any]) -> None:
        session = self._session
        try:
            answer = self._post(line, message)
            if answer.status == _NOT_FOUND and self._is_of_session(message):
                with self._opening:
                    if self._session == session:  # else another request has opened it
                        self._session = None
                        opened = self._post(self._opened, {"method": "initialize"})
                        self._session = opened.headers.get("mcp-session-id")
                answer = self._post(line, message)
        except _NotSentError as error:
            self._say_error(message.get("id"), _FAILED, str(error))
        except (OSError, http.client.HTTPException):
            unknown = "whether it did what was asked is not known"
            ended = f"the daemon ended before it had answered; {unknown}"
            self._say_error(message.get("id"), _FAILED, ended)
        else:
            self._pass_back(answer, message)

    def _pass_back(self, answer: _Answer, message: Mapping[str, Any]) -> None:
        document = _object(answer.body)
        if message.get("method") == "initialize" and answer.status == _OK:
            self._opened = json.dumps(message).encode()
            self._session = answer.headers.get("mcp-session-id")
            self._version = str(_object(document.get("result")).get("protocolVersion", ""))
        if "id" not in message or not answer.body:
            return
        if "jsonrpc" in document:
            self._say(answer.body)
        else:
            text = document.get("message") or f"the daemon answered {answer.status}"
            self._say_error(message.get("id"), _FAILED, str(text))

    def _is_of_session(self, message: Mapping[str, Any]) -> bool:
        is_later = self._opened and message.get("method") != "initialize"
        return bool(is_later) and _modern_version(message) is None

    def _end_session(self) -> None:
        found = self._connected() if self._session is not None else None
        if found is not None:
            with found as connection, suppress(OSError, http.client.HTTPException):
                connection.request("DELETE", _PATH, headers=self._headers({}))
                connection.getresponse().read()

    def _post(self, line: bytes, message: Mapping[str, Any]) -> _Answer:
        """Raises _NotSentError where no daemon took it, OSError where it may have."""
        deadline = time.monotonic() + _PATIENCE_S
        while (found := self._connected()) is None:
            if self._refusal is not None:
                raise _NotSentError(self._refusal)
            if time.monotonic() > deadline or self._is_over.is_set():
                raise _NotSentError("no daemon is running; `parachute start` starts it")
            time.sleep(_STEP_S)
        with found as connection:
            connection.request("POST", _PATH, line, self._headers(message))
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return _Answer(answer.status, headers, answer.read())

    def _connected(self) -> closing[http.client.HTTPConnection] | None:
        record = found_daemon()
        if record is None:
            return None
        address = str(record["host"]), int(str(record["port"]))
        connection = http.client.HTTPConnection(*address, timeout=_CALL_S)
        try:
            connection.connect()
        except OSError:
            connection.close()
            return None
        return closing(connection)

    def _headers(self, message: Mapping[str, Any]) -> dict[str, str]:
        accepted = "application/json, text/event-stream"
        headers = {"Content-Type": "application/json", "Accept": accepted}
        token = self._key or (found_daemon() or {}).get("token")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        version, method = _modern_version(message), message.get("method")
        if version is not None:
            headers |= {"MCP-Protocol-Version": version, "Mcp-Method": _header_value(method)}
            name = _NAMED.get(str(method))
            if name is not None:
                headers["Mcp-Name"] = _header_value(_object(message.get("params")).get(name))
        elif method != "initialize":
            headers |= {"MCP-Protocol-Version": self._version} if self._version else {}
            headers |= {"Mcp-Session-Id": self._session} if self._session else {}
        return headers

    def _say_error(self, number: object, code: int, text: str) -> None:
        error = {"code": code, "message": text}
        self._say(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode())

    def _say(self, message: bytes) -> None:
        with self._writing:
            try:
                self._out.write(message.replace(b"\n", b" ") + b"\n")
                self._out.flush()
            except (OSError, ValueError):
                self._is_over.set()  # the client has gone


def _object(value: object) -> Mapping[str, Any]:
    try:
        found = json.loads(value) if isinstance(value, bytes) else value
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _modern_version(message: Mapping[str, Any]) -> str | None:
    version = _object(_object(message.get("params")).get("_meta")).get(_VERSION_KEY)
    return _header_value(version) if isinstance(version, str) else None


def _header_value(value: object) -> str:
    """A text as a header may hold it; the protocol names this form for all others."""
    text = value if isinstance(value, str) else ""
    if _PLAIN.fullmatch(text) and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="
