"""MCP over stdio: passes each line to the daemon over HTTP, and its answers back.

A client keeps this process for hours while daemons come and go: a request waits for the next one,
and the session is opened again there. What a daemon may have done already is never sent twice.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import IO, Any, NamedTuple

from parachuted.cli.client import home_of
from parachuted.processes.presence import running_daemon

LARGEST = 2 << 20
_PATH = "/mcp"
_AT_ONCE = 8
_PATIENCE_S, _STEP_S, _CALL_S = 30.0, 0.02, 600.0
_LISTEN_S = 0.5
_RESTART_S = 3.0  # how long a daemon may be away that a person restarts
_PARSE_ERROR, _FAILED = -32700, -32000
_OK, _WRONG, _NOT_FOUND = 200, 400, 404
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _NotSentError(Exception): ...


class McpForwarder:
    def __init__(self, lines: IO[bytes], out: IO[bytes], *, key: str | None) -> None:
        """`key` None: the daemon takes us for the person at this machine."""
        self._lines, self._out, self._key = lines, out, key
        self._writing, self._opening = threading.Lock(), threading.Lock()
        self._opened: bytes | None = None
        self._session: str | None = None
        self._version: str | None = None
        self._has_seen_daemon = self._is_listening = False
        self._streams: dict[object, http.client.HTTPConnection] = {}
        self.is_over, self.needs_daemon = threading.Event(), threading.Event()
        self.refusal: str | None = None
        """Why there will be no daemon; requests are answered by it. `needs_daemon` is set when one
        is missing, and at the end."""

    def run(self) -> None:
        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for line in self._messages():
                    self._take(line, pool.submit)
                for number in tuple(self._streams):
                    self._cut(number)
        finally:
            self._end_session()
            self._stop()

    def _messages(self) -> Iterator[bytes]:
        """The lines; one that is too long is refused, and the rest of it dropped."""
        while line := self._lines.readline(LARGEST + 1):
            if len(line) <= LARGEST:
                yield line
                continue
            self._say_error(None, _PARSE_ERROR, f"a message has at most {LARGEST >> 20} MB")
            while line and not line.endswith(b"\n"):
                line = self._lines.readline(LARGEST)

    def _take(self, line: bytes, submit: Callable[..., object]) -> None:
        """Requests are passed on side by side; all else in its order."""
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._say_error(None, _PARSE_ERROR, "this line is not JSON")
            return
        if not isinstance(message, dict):
            self._say_error(None, _PARSE_ERROR, "a message is a JSON object")
        elif message.get("method") == "notifications/cancelled":
            self._cut(dict(message.get("params") or {}).get("requestId"))
            self._forward(line, message)
        elif "id" in message and message.get("method") not in {None, "initialize"}:
            submit(self._forward, line, message)
        else:
            self._forward(line, message)

    def _forward(self, line: bytes, message: Mapping[str, Any]) -> None:
        """Whatever happens, a request is answered."""
        try:
            answer = self._post(line, message)
            if answer.status == _NOT_FOUND and self._is_of_session(message):
                self._open_again()
                answer = self._post(line, message)
        except _NotSentError as error:
            self._say_error(message.get("id"), _FAILED, str(error))
        except (OSError, http.client.HTTPException):
            self._say_error(
                message.get("id"),
                _FAILED,
                "the daemon ended before it had answered; whether it did what was asked is not "
                "known",
            )
        else:
            self._pass_back(answer, message)

    def _pass_back(self, answer: _Answer, message: Mapping[str, Any]) -> None:
        if message.get("method") == "initialize" and answer.status == _OK:
            self._opened = json.dumps(message).encode()
            self._session = answer.headers.get("mcp-session-id")
            self._version = _version_in(answer.body)
        if message.get("method") == "notifications/initialized" and not self._is_listening:
            self._is_listening = True
            threading.Thread(target=self._listen, name="changes", daemon=True).start()
        if "id" not in message or not answer.body:
            return
        document = _document(answer.body)
        if "jsonrpc" in document:
            self._say(answer.body)
        else:
            text = document.get("message") or f"the daemon answered {answer.status}"
            self._say_error(message.get("id"), _FAILED, str(text))

    def _is_of_session(self, message: Mapping[str, Any]) -> bool:
        return (
            self._opened is not None
            and _modern_version(message) is None
            and message.get("method") != "initialize"
        )

    def _open_again(self) -> None:
        """The session on a daemon that does not know it. What the client has read counts as unread
        there.
        """
        with self._opening:
            if self._opened is None:
                return
            ping = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "ping"}).encode()
            if self._post(ping, {"method": "ping"}).status != _NOT_FOUND:
                return  # another request has opened it
            self._session = None
            answer = self._post(self._opened, {"method": "initialize"})
            self._session = answer.headers.get("mcp-session-id")

    def _listen(self) -> None:
        """Pass on what the daemon says by itself, such as that a note has changed."""
        unknown = None
        while not self.is_over.is_set():
            found = self._connected() if self._session != unknown else None
            if found is None:
                self.is_over.wait(_LISTEN_S)
                continue
            with found as connection, suppress(OSError, http.client.HTTPException):
                session = self._session
                connection.request("GET", _PATH, headers=self._headers({}))
                answer = connection.getresponse()
                if answer.status == _OK:
                    self._pass_on(answer)
                else:
                    unknown = session  # until a request has opened another one

    def _pass_on(self, answer: http.client.HTTPResponse) -> None:
        for line in answer:
            if line.startswith(b"data: "):
                self._say(line.removeprefix(b"data: ").strip())

    def _cut(self, number: object) -> None:
        connection = self._streams.get(number) if isinstance(number, int | str) else None
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _end_session(self) -> None:
        found = self._connected() if self._session is not None else None
        if found is None:
            return
        with found as connection, suppress(OSError, http.client.HTTPException):
            connection.request("DELETE", _PATH, headers=self._headers({}))
            connection.getresponse().read()

    def _post(self, line: bytes, message: Mapping[str, Any]) -> _Answer:
        """Raises _NotSentError where no daemon took it, OSError where it may have."""
        with self._connection() as connection:
            connection.request("POST", _PATH, line, self._headers(message))
            answer = connection.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            if not headers.get("content-type", "").startswith("text/event-stream"):
                return _Answer(answer.status, headers, answer.read())
            self._streams[message.get("id")] = connection
            try:
                self._pass_on(answer)
            finally:
                self._streams.pop(message.get("id"), None)
            return _Answer(answer.status, headers, b"")

    def _connection(self) -> closing[http.client.HTTPConnection]:
        """To the daemon that runs, or that will in a moment. One for each message: none is found
        closed after half of a message was sent.
        """
        began = time.monotonic()
        while (connection := self._connected()) is None:
            waited = time.monotonic() - began
            if waited > (_RESTART_S if self._has_seen_daemon else 0.0):
                self.needs_daemon.set()
            if self.refusal is not None:
                raise _NotSentError(self.refusal)
            if waited > _PATIENCE_S or self.is_over.is_set():
                raise _NotSentError("no daemon is running; `parachute start` starts it")
            time.sleep(_STEP_S)
        return connection

    def _connected(self) -> closing[http.client.HTTPConnection] | None:
        """A connection to the daemon that runs; None: there is none, or it does not answer."""
        record = running_daemon(home_of(os.environ))
        if record is None:
            return None
        connection = http.client.HTTPConnection(
            str(record["host"]), int(str(record["port"])), timeout=_CALL_S
        )
        try:
            connection.connect()
        except OSError:
            connection.close()
            return None
        self._has_seen_daemon = True
        return closing(connection)

    def _headers(self, message: Mapping[str, Any]) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        token = self._key or _token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        version = _modern_version(message)
        if version is not None:
            headers["MCP-Protocol-Version"] = version
            headers["Mcp-Method"] = _header_value(message.get("method"))
            name = _NAMED.get(str(message.get("method")))
            if name is not None:
                params = message.get("params")
                headers["Mcp-Name"] = _header_value(dict(params or {}).get(name))
        elif message.get("method") != "initialize":
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
                self._stop()  # the client has gone

    def _stop(self) -> None:
        self.is_over.set()
        self.needs_daemon.set()


def _token() -> str | None:
    record = running_daemon(home_of(os.environ))
    return None if record is None or "token" not in record else str(record["token"])


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _version_in(body: bytes) -> str | None:
    result = _document(body).get("result")
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    return version if isinstance(version, str) else None


def _modern_version(message: Mapping[str, Any]) -> str | None:
    """The version of a message that needs no session, as it says itself."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    return _header_value(version) if isinstance(version, str) else None


def _header_value(value: object) -> str:
    """A text as a header may hold it; the protocol names this form for all others."""
    text = value if isinstance(value, str) else ""
    if _PLAIN.fullmatch(text) and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="
