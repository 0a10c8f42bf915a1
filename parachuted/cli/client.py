"""Client: asks the daemon by a raw socket, since importing an HTTP library takes longer."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping

from parachuted.errors import NoDaemonError, NotFoundError, ParachuteError
from parachuted.processes.presence import home_of, running_daemon

# importing `typing` for this one name would be a tenth of what `parachute status` costs
TYPE_CHECKING = False
if TYPE_CHECKING:
    from http.client import HTTPConnection
    from typing import Any

    from parachuted.config import Settings

_TIMEOUT_S = 120.0
_SILENCE_S = 180.0  # of a stream: the daemon gives a sign of life every 15 s
_NOT_FOUND, _REFUSED = 404, 400
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")
_LOST = "the connection to the daemon was lost ({}); the answer goes on there"
_CUT_SHORT = "the daemon ended before it had answered; `parachute logs` may say why"


def found_daemon() -> dict[str, object] | None:
    return running_daemon(home_of(os.environ))


def daemon_record() -> dict[str, object]:
    """Raises NoDaemonError."""
    record = found_daemon()
    if record is None:
        raise NoDaemonError
    return record


def is_running() -> bool:
    return found_daemon() is not None


def current_settings() -> Settings:
    """The settings of this home and environment. Raises ConfigError."""
    from parachuted.config import home_folder, load_settings

    return load_settings(home_folder(os.environ), os.environ, {})


def current_vault() -> str:
    """The vault of the running daemon, else that of the settings. Raises ConfigError."""
    record = found_daemon()
    return os.fspath(current_settings().vault) if record is None else str(record["vault"])


def in_vault(file: str) -> str:
    """The vault path that the words mean: of what is there on the disk, seen from here, if it is in
    the vault; else as it is. ParachuteError: a path elsewhere.
    """
    vault = os.path.realpath(str(daemon_record()["vault"]))
    real = os.path.realpath(os.path.expanduser(file))
    is_of_disk = file.startswith(("/", "~/", "./", "../"))
    if real.startswith(vault + os.sep) and (os.path.exists(real) or is_of_disk):
        return os.path.relpath(real, vault)
    if is_of_disk:
        raise ParachuteError(f"{file} is not in the vault {vault}")
    return file


def quoted(text: str, but: bytes = b"") -> str:
    """The text as it may stand in an address, whatever its bytes; those of `but` stay."""
    safe = _SAFE.union(but)
    return "".join(chr(byte) if byte in safe else f"%{byte:02X}" for byte in os.fsencode(text))


def ask(
    request: str,
    body: dict[str, object] | None = None,
    *,
    timeout_s: float = _TIMEOUT_S,
    only_new: bool = False,
) -> Any:  # noqa: ANN401  JSON of any shape
    """The daemon's answer to a request such as `GET /api/tasks`; `only_new`: it may replace
    nothing.

    Raises NoDaemonError, NotFoundError, or ParachuteError with the daemon's own sentence.
    """
    more = "If-None-Match: *\r\n" if only_new else ""
    body = {} if body is None and request.startswith("POST ") else body
    return _json(_exchange(request, body, timeout_s, more))


def fetch(path: str) -> bytes:
    return _exchange(f"GET {path}", None, _TIMEOUT_S, "")


def follow(request: str, body: Mapping[str, object] | None = None) -> Iterator[Any]:
    """The data of each event of a stream that is open now, as JSON. Raises as `ask`."""
    import http.client

    record, (method, path) = daemon_record(), request.split(" ")
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    if "token" in record:
        headers["Authorization"] = f"Bearer {record['token']}"
    address = str(record["host"]), int(str(record["port"]))
    connection = http.client.HTTPConnection(*address, timeout=_SILENCE_S)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        if response.status >= _REFUSED:
            raise _refusal(response.status, response.read())
    except (OSError, http.client.HTTPException) as error:
        raise NoDaemonError(_LOST.format(error)) from error
    return _events(connection, response)


def _events(connection: HTTPConnection, lines: Iterable[bytes]) -> Iterator[Any]:
    from http.client import HTTPException

    try:
        for line in lines:
            if line.startswith(b"data:"):
                yield json.loads(line.removeprefix(b"data:"))
    except (OSError, HTTPException, ValueError) as error:
        raise NoDaemonError(_LOST.format(error)) from error
    finally:
        connection.close()


def _json(text: bytes) -> Any:  # noqa: ANN401  JSON of any shape
    try:
        return json.loads(text)
    except ValueError as error:
        raise NoDaemonError(_CUT_SHORT) from error


def _refusal(status: int, text: bytes) -> ParachuteError:
    answer = _json(text)
    message = str(answer.get("message", "")) if isinstance(answer, dict) else ""
    error = NotFoundError if status == _NOT_FOUND else ParachuteError
    return error(message or f"the daemon answered {status}")


def _exchange(request: str, body: dict[str, object] | None, timeout_s: float, more: str) -> bytes:
    record = daemon_record()
    payload = b"" if body is None else json.dumps(body).encode()
    host, port = str(record["host"]), int(str(record["port"]))
    name = f"[{host}]" if ":" in host else host
    head = f"{request} HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n{more}"
    head += f"Authorization: Bearer {record['token']}\r\n" if "token" in record else ""
    head += "" if body is None else "Content-Type: application/json\r\n"
    head += f"Content-Length: {len(payload)}\r\n\r\n"
    # bytes, since for a text Python would load its table of international names
    address: Any = (host.encode(), port)
    answer = b""
    try:
        with socket.create_connection(address, timeout=timeout_s) as connection:
            connection.sendall(head.encode() + payload)
            while part := connection.recv(65536):
                answer += part
    except OSError as error:
        says = f"the daemon does not answer ({error}); `parachute restart` may help"
        raise NoDaemonError(says) from error
    header, _, text = answer.partition(b"\r\n\r\n")
    try:
        status = int(header.split(b" ", 2)[1])
    except (IndexError, ValueError) as error:
        raise NoDaemonError(_CUT_SHORT) from error
    if status >= _REFUSED:
        raise _refusal(status, text)
    return text
