"""The first process of a container: ready before it says so, a relay, and not its programs' to
end.
"""

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import parachuted.agents.sandbox.inside as subject
from parachuted.agents.sandbox.inside import relay

SOURCE = Path(subject.__file__).read_text()


@pytest.mark.parametrize("arguments", [(), ("0", "/nowhere")])
def test_it_says_that_it_is_ready_and_lives_as_long_as_its_input(arguments):
    assert "parachuted" not in SOURCE.partition('"""\n')[2]  # it is one text
    command = [sys.executable, "-I", "-S", "-c", SOURCE, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"\n"
        process.send_signal(signal.SIGCHLD)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.fixture
def port(tmp_path):
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(
        target=relay, args=(listening, str(tmp_path / "proxy.sock")), daemon=True
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
