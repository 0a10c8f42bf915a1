"""Client: asks the running daemon over its socket.

A raw socket and no HTTP library, since importing one takes longer than the whole question.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping

from parachuted.errors import NoDaemonError, NotFoundError, ParachuteError
from parachuted.presence import running_daemon

TYPE_CHECKING = False  # importing `typing` for this one name would be a tenth of what `parachute status` costs
if TYPE_CHECKING:
    from typing import Any

_TIMEOUT_S = 120.0


def home_of(env: Mapping[str, str]) -> str:
    """What `parachuted.config.home_folder` says, without the time that importing it takes."""
    home = env.get("PARACHUTE_HOME") or "~/.parachute"
    if home == "~" or home.startswith("~/"):
        home = (env.get("HOME") or os.path.expanduser("~")) + home[1:]
    return os.path.abspath(home)


def daemon_record() -> dict[str, object]:
    """The running daemon's record; raises NoDaemonError when there is none."""
    record = running_daemon(home_of(os.environ))
    if record is None:
        raise NoDaemonError
    return record


def ask(method: str, path: str, body: dict[str, object] | None = None, *, timeout_s: float = _TIMEOUT_S) -> Any:  # noqa: ANN401  JSON of any shape
    """The daemon's answer. Raises NoDaemonError, NotFoundError, or ParachuteError with the daemon's own sentence.

    `timeout_s`: how long an answer may take, in seconds.
    """
    record = daemon_record()
    status, answer = _exchange(record, method, path, body, timeout_s)
    if status < 400:  # noqa: PLR2004
        return answer
    message = str(answer.get("message", "")) if isinstance(answer, dict) else ""
    raise (NotFoundError if status == 404 else ParachuteError)(message or f"the daemon answered {status}")  # noqa: PLR2004


def _exchange(record: dict[str, object], method: str, path: str, body: dict[str, object] | None, timeout_s: float) -> tuple[int, Any]:
    payload = b"" if body is None else json.dumps(body).encode()
    host, port = str(record["host"]), int(str(record["port"]))
    name = f"[{host}]" if ":" in host else host
    head = f"{method} {path} HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\nContent-Length: {len(payload)}\r\n"
    head += f"Authorization: Bearer {record['token']}\r\n\r\n" if "token" in record else "\r\n"
    address: Any = (host.encode(), port)  # bytes, since for a text Python would load its table of international names
    try:
        with socket.create_connection(address, timeout=timeout_s) as connection:
            connection.sendall(head.encode() + payload)
            answer = b""
            while part := connection.recv(65536):
                answer += part
    except OSError as error:
        raise NoDaemonError(f"the daemon does not answer ({error}); `parachute restart` may help") from error
    header, _, text = answer.partition(b"\r\n\r\n")
    try:
        return int(header.split(b" ", 2)[1]), json.loads(text)
    except (IndexError, ValueError) as error:
        raise NoDaemonError("the daemon ended before it had answered; `parachute logs` may say why") from error
