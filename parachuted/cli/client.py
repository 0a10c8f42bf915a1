"""Client: asks the running daemon over its socket.

A raw socket and no HTTP library, since importing one takes longer than the whole question.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping

from parachuted.errors import NoDaemonError, NotFoundError, ParachuteError
from parachuted.processes.presence import running_daemon

TYPE_CHECKING = (
    False  # importing `typing` for this one name would be a tenth of what `parachute status` costs
)
if TYPE_CHECKING:
    from typing import Any

    from parachuted.config import Settings

_TIMEOUT_S = 120.0
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")
_CUT_SHORT = "the daemon ended before it had answered; `parachute logs` may say why"


def home_of(env: Mapping[str, str]) -> str:
    """What `parachuted.config.home_folder` says, without the time that importing it takes."""
    return absolute(env.get("PARACHUTE_HOME") or "~/.parachute", env)


def absolute(path: str, env: Mapping[str, str]) -> str:
    """The path from the root on, `~` taken for the person's home."""
    if path == "~" or path.startswith("~/"):
        path = (env.get("HOME") or os.path.expanduser("~")) + path[1:]
    return os.path.abspath(path)


def daemon_record() -> dict[str, object]:
    """The running daemon's record; raises NoDaemonError when there is none."""
    record = running_daemon(home_of(os.environ))
    if record is None:
        raise NoDaemonError
    return record


def is_running() -> bool:
    return running_daemon(home_of(os.environ)) is not None


def current_settings() -> Settings:
    """The settings of this home and environment. Raises ConfigError."""
    from parachuted.config import home_folder, load_settings

    return load_settings(home_folder(os.environ), os.environ, {})


def current_vault() -> str:
    """The vault of the running daemon, else that of the settings. Raises ConfigError."""
    record = running_daemon(home_of(os.environ))
    return os.fspath(current_settings().vault) if record is None else str(record["vault"])


def in_vault(file: str) -> str:
    """The vault path that the words mean: what is there on the disk, seen from here, if it is in
    the vault; else a path in the vault. Raises ParachuteError for a path elsewhere.
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
    method: str,
    path: str,
    body: dict[str, object] | None = None,
    *,
    timeout_s: float = _TIMEOUT_S,
    only_new: bool = False,
) -> Any:  # noqa: ANN401  JSON of any shape
    """The daemon's answer.

    Raises NoDaemonError, NotFoundError, or ParachuteError with the daemon's own sentence.

    `timeout_s`: how long an answer may take, in seconds; `only_new`: what is sent may replace
    nothing.
    """
    status, text = _exchange(
        daemon_record(), method, path, body, timeout_s, "If-None-Match: *\r\n" if only_new else ""
    )
    return _answer(status, _json(text))


def fetch(path: str) -> bytes:
    """The bytes that the daemon answers. Raises as `ask`."""
    status, text = _exchange(daemon_record(), "GET", path, None, _TIMEOUT_S, "")
    if status >= 400:  # noqa: PLR2004
        _answer(status, _json(text))
    return text


def _answer(status: int, answer: Any) -> Any:  # noqa: ANN401  JSON of any shape
    if status < 400:  # noqa: PLR2004
        return answer
    message = str(answer.get("message", "")) if isinstance(answer, dict) else ""
    raise (NotFoundError if status == 404 else ParachuteError)(  # noqa: PLR2004
        message or f"the daemon answered {status}"
    )


def _json(text: bytes) -> Any:  # noqa: ANN401  JSON of any shape
    try:
        return json.loads(text)
    except ValueError as error:
        raise NoDaemonError(_CUT_SHORT) from error


def _exchange(
    record: dict[str, object],
    method: str,
    path: str,
    body: dict[str, object] | None,
    timeout_s: float,
    more: str,
) -> tuple[int, bytes]:
    """The status and the bytes of an answer; `more` are headers beside the usual ones."""
    payload = b"" if body is None else json.dumps(body).encode()
    host, port = str(record["host"]), int(str(record["port"]))
    name = f"[{host}]" if ":" in host else host
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: "
        f"close\r\nContent-Length: {len(payload)}\r\n{more}"
    )
    head += f"Authorization: Bearer {record['token']}\r\n\r\n" if "token" in record else "\r\n"
    address: Any = (
        host.encode(),
        port,
    )  # bytes, since for a text Python would load its table of international names
    try:
        with socket.create_connection(address, timeout=timeout_s) as connection:
            connection.sendall(head.encode() + payload)
            answer = b""
            while part := connection.recv(65536):
                answer += part
    except OSError as error:
        raise NoDaemonError(
            f"the daemon does not answer ({error}); `parachute restart` may help"
        ) from error
    header, _, text = answer.partition(b"\r\n\r\n")
    try:
        return int(header.split(b" ", 2)[1]), text
    except (IndexError, ValueError) as error:
        raise NoDaemonError(_CUT_SHORT) from error
