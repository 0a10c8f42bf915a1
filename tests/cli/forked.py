"""Forked: a command in a process of its own, forked from one that has imported all of it.

Starting Python and importing what a command needs takes 0.3 s of processor time, a fork 0.01 s.
What is forked has its own environment, folder, standard streams and exit code.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 1 << 20
NUMBER = 4
PROGRAM = "import sys; from tests.cli import forked; forked.serve(sys.argv[1])"
HEAVY = ("parachuted.daemon", "parachuted.modules", "aiohttp.web", "mcp")
AT_START = ("PYTHON", "LC_", "LANG")  # read when an interpreter starts, and never again


class Forking:
    """The process that has all of it imported; it ends when this does."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pd-forked-")
        self._address = f"{self._folder.name}/socket"
        self._environ = dict(os.environ)
        kept = {n: v for n, v in self._environ.items() if n == "PATH" or n.startswith(AT_START)}
        self._server = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from tests.cli import forked; forked.serve({self._address!r})",
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**kept, "PYTHONPATH": str(ROOT)},  # nothing of the test that happens to be first
        )
        while not Path(self._address).exists():
            assert self._server.poll() is None
            time.sleep(0.01)

    def close(self) -> None:
        """End it."""
        with self._server:
            pass
        self._folder.cleanup()

    def is_fit_for(self, words: tuple[str, ...], env: Mapping[str, str]) -> bool:
        """Whether a fork is the same as a start: `start --foreground` starts itself again."""
        names = {name for name in {*env, *self._environ} if name.startswith(AT_START)}
        return "--foreground" not in words and all(
            env.get(name) == self._environ.get(name) for name in names
        )

    def run(
        self, words: tuple[str, ...], env: Mapping[str, str], cwd: Path, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run one command to its end, and until no one holds its output."""
        pipes = os.pipe(), os.pipe()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with connection, contextlib.ExitStack() as ours:
            for reader, _writer in pipes:
                ours.callback(os.close, reader)
            try:
                connection.connect(self._address)
                asked = json.dumps([words, dict(env), str(cwd)]).encode()
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST)
                fds = array.array("i", [writer for _reader, writer in pipes])
                connection.sendmsg([asked], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            finally:
                for _reader, writer in pipes:
                    os.close(writer)
            pid = int.from_bytes(connection.recv(NUMBER), "big")
            try:
                out, err = _read([reader for reader, _writer in pipes], timeout_s)
                connection.settimeout(timeout_s)
                status = int.from_bytes(connection.recv(NUMBER), "big")
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(words, timeout_s) from None
        code = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess(words, code, _text(out), _text(err))


@cache
def forking() -> Forking:
    """The one of this process of tests."""
    return Forking()


def end() -> None:
    """End the one of this process of tests, if there is one."""
    if forking.cache_info().currsize:
        forking().close()
        forking.cache_clear()


def _text(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n")


def _read(fds: list[int], timeout_s: float) -> list[bytes]:
    """All that comes, until every writer has closed."""
    parts: dict[int, list[bytes]] = {fd: [] for fd in fds}
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as ready:
        for fd in fds:
            ready.register(fd, selectors.EVENT_READ)
        while ready.get_map():
            found = ready.select(deadline - time.monotonic())
            if not found and time.monotonic() >= deadline:
                raise TimeoutError
            for key, _events in found:
                if data := os.read(key.fd, 1 << 16):
                    parts[key.fd].append(data)
                else:
                    ready.unregister(key.fd)
    return [b"".join(parts[fd]) for fd in fds]


def serve(address: str) -> None:
    """Fork a command for each who connects, until our stdin closes; tells its process number, and
    then how it ended.
    """
    _import_all()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{address}.new")
    listener.listen(64)
    Path(f"{address}.new").rename(address)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as ready:
        for source in (0, woken, listener):
            ready.register(source, selectors.EVENT_READ)
        while 0 not in (sources := [key.fileobj for key, _events in ready.select()]):
            if woken in sources:
                os.read(woken, 1 << 16)
                _reap(running)
            if listener in sources:
                connection, _ = listener.accept()
                if not (pid := os.fork()):
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    os.closerange(3, connection.fileno())
                    os.closerange(connection.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
                    _be_the_command(connection)
                connection.send(pid.to_bytes(NUMBER, "big"))
                running[pid] = connection


def _import_all() -> None:
    commands = importlib.import_module("parachuted.cli")
    for found in pkgutil.iter_modules(commands.__path__, "parachuted.cli."):
        importlib.import_module(found.name)
    for name in HEAVY:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _reap(running: dict[int, socket.socket]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with running.pop(pid) as connection, contextlib.suppress(OSError):
                connection.send(status.to_bytes(NUMBER, "big"))


def _be_the_command(connection: socket.socket) -> None:
    asked, fds, _flags, _ = socket.recv_fds(connection, LONGEST, 2)
    connection.close()
    words, env, cwd = json.loads(asked)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, number in zip((nothing, *fds), range(3), strict=True):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    time.tzset()
    tempfile.tempdir = None
    sys.path.remove(str(ROOT))
    sys.argv = ["parachute", *words]
    _run(words)


def _run(words: list[str]) -> None:
    """Run it and end as an interpreter does, but for taking all that is imported apart, which costs
    more than most commands.
    """
    code: object = 1
    try:
        code = importlib.import_module("parachuted.cli").main(words)
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001  as the interpreter would
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else code is not None)
