import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import parachuted.agents.sandbox.inside as subject
from parachuted.agents.sandbox.inside import main, relay

SOURCE = Path(subject.__file__).read_text()


@pytest.fixture
def instructed(tmp_path):
    """A command line that runs a command by our instructions."""
    (tmp_path / "mark").write_text("abc")

    def line(*command):
        instructions = {"command": command, "mark": str(tmp_path / "mark"), "relay": None}
        return [sys.executable, "-I", "-S", "-c", SOURCE, json.dumps(instructions)]

    return line


@pytest.mark.parametrize(
    ("command", "out", "complaint", "code"),
    [
        (("sh", "-c", "echo $A; cat; exit 5"), b"abc\nb\ninput", b"", 5),
        (("no-such-program",), b"abc\n", b"could not be started", 127),
        (("sh", "-c", "kill -KILL $$"), b"abc\n", b"", 137),
        (("sh", "-c", "(yes; echo $? >&2) | head -n 1"), b"abc\ny\n", b"141", 0),
        (("sh", "-c", "(sleep 0.1; exit 9) & exit 3"), b"abc\n", b"", 3),
    ],
)
def test_it_prints_the_mark_and_ends_with_its_program(
    tmp_path, instructed, command, out, complaint, code
):
    env = {"A": "b", "PATH": os.environ["PATH"]}
    given = {"input": b"\ninput", "env": env, "cwd": tmp_path, "timeout": 30}
    done = subprocess.run(instructed(*command), capture_output=True, check=False, **given)
    printed, _, last = done.stdout.partition(b"\0")

    assert (printed, done.returncode) == (out, code)
    assert last.split()[0] == str(code).encode()
    assert complaint in done.stderr


def test_a_program_that_made_its_output_non_blocking_cuts_off_no_end(instructed):
    reading, writing = os.pipe()
    command = instructed(sys.executable, "-c", "import os; os.set_blocking(1, False)")
    subprocess.run(command, input=b"\n", stdout=writing, timeout=30, check=True)

    assert os.get_blocking(writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as printed:
        assert printed.read().startswith(b"abc\n\x000 ")


def test_it_is_one_text_that_imports_nothing_of_ours():
    assert callable(main)
    assert "parachuted" not in SOURCE


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
