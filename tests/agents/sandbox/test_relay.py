import socket
import threading

import pytest

from parachuted.agents.sandbox.relay import serve


@pytest.fixture
def port(tmp_path):
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(
        target=serve, args=(listening, str(tmp_path / "proxy.sock")), daemon=True
    ).start()
    return listening.getsockname()[1]


def test_bytes_go_through_both_ways_and_an_end_with_them(tmp_path, port):
    with socket.socket(socket.AF_UNIX) as far:
        far.bind(str(tmp_path / "proxy.sock"))
        far.listen()
        with socket.create_connection(("127.0.0.1", port)) as near:
            near.sendall(b"question")
            near.shutdown(socket.SHUT_WR)
            there, _ = far.accept()
            with there:
                assert there.makefile("rb").read() == b"question"
                there.sendall(b"answer")
            assert near.makefile("rb").read() == b"answer"


def test_without_a_proxy_a_connection_ends_and_the_next_is_taken(port):
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port)) as near:
            near.settimeout(60)
            assert near.recv(1) == b""
