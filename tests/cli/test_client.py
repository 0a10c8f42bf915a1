"""The client: what it says when the daemon answers oddly, or not at all."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parachuted.cli.client import ask, daemon_record
from parachuted.errors import NoDaemonError, NotFoundError, ParachuteError
from parachuted.processes.presence import Presence

OK = b"HTTP/1.1 200 OK\r\n\r\n"
CUT_SHORT = "before it had answered"


@contextmanager
def answering(
    home: Path, vault: Path, answer: bytes, host: str = "127.0.0.1", **more: str
) -> Iterator[list[bytes]]:
    """Something that listens where a daemon should, and gives every caller this answer."""
    asked: list[bytes] = []
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                asked.append(connection.recv(65536))
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        presence = Presence(str(home), str(vault))
        presence.announce({"host": host, "port": server.getsockname()[1], **more})
        yield asked
        presence.release()
        thread.join(60)


@pytest.mark.parametrize(("host", "named"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_it_asks_with_the_token_that_the_daemon_announced(home, vault, host: str, named: str):
    with answering(home, vault, OK + b'{"a": [1]}', host, token="abc") as asked:  # noqa: S106
        assert ask("POST /api/x", {"path": "\xe9"}) == {"a": [1]}
    head, _, body = asked[0].partition(b"\r\n\r\n")
    assert head.startswith(f"POST /api/x HTTP/1.1\r\nHost: {named}:".encode())
    assert b"\r\nAuthorization: Bearer abc\r\n" in head
    assert json.loads(body) == {"path": "\xe9"}


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (b'HTTP/1.1 404 Not Found\r\n\r\n{"message": "no run"}', NotFoundError, "^no run$"),
        (b'HTTP/1.1 409 Conflict\r\n\r\n{"message": "no merge"}', ParachuteError, "^no merge$"),
        (b"HTTP/1.1 500 Error\r\n\r\n[]", ParachuteError, "the daemon answered 500"),
        (b'HTTP/1.1 200 OK\r\n\r\n{"cut', NoDaemonError, CUT_SHORT),
        (b"HTTP/1.1 200 OK\r\n\r\n", NoDaemonError, CUT_SHORT),
        (b"HTTP/1.1 200", NoDaemonError, CUT_SHORT),
        (b"SSH-2.0\r\n", NoDaemonError, CUT_SHORT),
        (b"", NoDaemonError, CUT_SHORT),
    ],
)
def test_what_is_not_an_answer_is_said_in_a_sentence(home, vault, answer, error, says):
    with answering(home, vault, answer), pytest.raises(error, match=says):
        ask("GET /api/x")


def test_a_daemon_that_does_not_listen_is_not_a_daemon(home, vault):
    presence = Presence(str(home), str(vault))
    with socket.create_server(("127.0.0.1", 0)) as server:
        presence.announce({"host": "127.0.0.1", "port": server.getsockname()[1]})
    with pytest.raises(NoDaemonError, match="does not answer"):
        ask("GET /api/x")
    presence.release()
    with pytest.raises(NoDaemonError, match="No daemon is running"):
        daemon_record()


def test_it_is_cheap_to_import():
    code = "import sys; import parachuted.cli.client, parachuted.cli; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    heavy = {"argparse", "pathlib", "asyncio", "logging", "dataclasses", "http.client", "aiohttp"}
    heavy |= {"pydantic", "yaml", "encodings.idna"}
    assert not heavy & set(loaded)
