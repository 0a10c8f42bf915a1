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
import shlex
import shutil
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import IO, Any, NamedTuple

from parachuted.cli.client import ask, found_daemon, quoted
from parachuted.cli.commands import Columns, Steps, command, verb
from parachuted.cli.show import agrees, count, say, say_each, say_table, say_text
from parachuted.errors import ParachuteError
from parachuted.processes.presence import home_of, is_locked

NAME = "parachute"
_KEY = "PARACHUTE_KEY"
_APPROVE_S = 120.0  # a program may take its time to begin
_PATH = "/mcp"
_AT_ONCE = 8
_PATIENCE_S, _STEP_S, _CALL_S = 15.0, 0.02, 600.0
_PARSE_ERROR, _FAILED = -32700, -32000
_OK, _NOT_FOUND = 200, 404
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_PLAIN = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


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


@command("mcp install", "settings by which an agent's program starts `parachute mcp`")
def mcp_install(options: Namespace) -> None:
    """Print the settings by which a program starts `parachute mcp`, and where they belong.

    --key KEY  the API key that it is to act with
    """
    program = shutil.which("parachute")
    words = [program] if program is not None else [sys.executable, "-m", "parachuted"]
    own = {"PARACHUTE_HOME": os.environ.get("PARACHUTE_HOME"), _KEY: options.key}
    entry = {"type": "stdio", "command": words[0], "args": [*words[1:], "mcp"]}
    env = {name: value for name, value in own.items() if value}
    server = {**entry, "env": env} if env else entry
    say("For Claude Code, run:")
    say(shlex.join(["claude", "mcp", "add-json", "--scope", "user", NAME, json.dumps(server)]))
    say("For Claude Desktop and Cursor, in their file of MCP servers (VS Code says `servers`):")
    say_text(json.dumps({"mcpServers": {NAME: server}}, indent=2, ensure_ascii=False))


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
                for line in filter(bytes.strip, self._lines):
                    message = _object(line)
                    if not message:
                        self._say_error(None, _PARSE_ERROR, "a message is a JSON object")
                    elif "id" in message and message.get("method") not in {None, "initialize"}:
                        pool.submit(self._forward, line, message)
                    else:
                        self._forward(line, message)
        finally:
            self._end_session()
            self._is_over.set()

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
            if method == "tools/call":
                headers["Mcp-Name"] = _header_value(_object(message.get("params")).get("name"))
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
    except (ValueError, RecursionError):
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
