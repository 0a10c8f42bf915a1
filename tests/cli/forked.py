"""Forked: a command in a process of its own, forked from one that has imported all of it, and the
daemon that it starts in the background, forked from the command.

Starting Python and importing what a command needs takes 0.3 s of processor time, all of a daemon
more than a second, a fork 0.01 s. What is forked has its own environment, folder, standard streams
and exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
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
from types import SimpleNamespace
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 1 << 20
NUMBER = 4
HEAVY = ("parachuted.daemon", "parachuted.modules", "aiohttp.web", "mcp")
AT_START = ("PYTHON", "LC_", "LANG")  # read when an interpreter starts, and never again


class Forking:
    """The process that has all of it imported; it ends when this does."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pd-forked-")
        self._address = f"{self._folder.name}/socket"
        self._environ = dict(os.environ)
        kept = {n: v for n, v in self._environ.items() if n == "PATH" or n.startswith(AT_START)}
        # `CommandLine.started` knows a daemon by the word parachuted
        program = f"from tests.cli import forked; forked.serve({self._address!r})  # parachuted"
        self._server = subprocess.Popen(
            [sys.executable, "-c", program],
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
        self,
        words: tuple[str, ...],
        env: Mapping[str, str],
        cwd: Path,
        timeout_s: float,
        *,
        forks_daemon: bool,
    ) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with connection, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            connection.connect(self._address)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST)
            asked = json.dumps([words, dict(env), str(cwd), forks_daemon]).encode()
            socket.send_fds(connection, [asked], [out.fileno(), err.fileno()])
            pid = int.from_bytes(connection.recv(NUMBER), "big")
            connection.settimeout(timeout_s)
            try:
                status = int.from_bytes(connection.recv(NUMBER), "big")
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(words, timeout_s) from None
            for file in (out, err):
                file.seek(0)
            said = (file.read().decode().replace("\r\n", "\n") for file in (out, err))
            return subprocess.CompletedProcess(words, os.waitstatus_to_exitcode(status), *said)


@cache
def forking() -> Forking:
    """The one of this process of tests."""
    return Forking()


def end() -> None:
    """End the one of this process of tests, if there is one."""
    if forking.cache_info().currsize:
        forking().close()
        forking.cache_clear()


def serve(address: str) -> None:
    """Fork a command for each who connects, until our stdin closes. A process between tells its
    number, and then how it ended.
    """
    _import_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{address}.new")
    listener.listen(64)
    Path(f"{address}.new").rename(address)
    while 0 not in select.select([0, listener], [], [])[0]:
        connection, _ = listener.accept()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            asked, files, _flags, _ = socket.recv_fds(connection, LONGEST, 2)
            if not (pid := os.fork()):
                connection.close()
                _be_the_command(asked, files)
            connection.send(pid.to_bytes(NUMBER, "big"))
            with contextlib.suppress(OSError):
                connection.send(os.waitpid(pid, 0)[1].to_bytes(NUMBER, "big"))
            os._exit(0)
        connection.close()


def _import_all() -> None:
    commands = importlib.import_module("parachuted.cli")
    for found in pkgutil.iter_modules(commands.__path__, "parachuted.cli."):
        importlib.import_module(found.name)
    for name in HEAVY:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _be_the_command(asked: bytes, files: list[int]) -> None:
    words, env, cwd, forks_daemon = json.loads(asked)
    sys.path.remove(str(ROOT))
    if forks_daemon and {"start", "restart"} & {*words[:1]}:
        stand_in = SimpleNamespace(**{**vars(subprocess), "Popen": ForkedDaemon})
        importlib.import_module("parachuted.cli.daemon").subprocess = stand_in
    _become(words, env, cwd, files)


class ForkedDaemon:
    """In the place of the `subprocess.Popen` by which a command starts a daemon."""

    def __init__(
        self, words: list[str], *, stdout: IO[bytes], env: Mapping[str, str], cwd: str, **_: object
    ) -> None:
        sys.stdout.flush()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            os.setsid()
            sys.orig_argv[:] = words  # by which it starts itself again
            files = [os.dup(stdout.fileno()), os.dup(stdout.fileno())]
            _become(words[3:], env, cwd, files)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        return self.returncode if self.returncode is not None else self._reap(os.WNOHANG)

    def wait(self, _timeout: float | None = None) -> int | None:
        """The same, once it has."""
        return self.returncode if self.returncode is not None else self._reap(0)

    def _reap(self, how: int) -> int | None:
        pid, status = os.waitpid(self.pid, how)
        self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)


def _become(words: list[str], env: Mapping[str, str], cwd: str, files: list[int]) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, number in zip((nothing, *files), range(3), strict=True):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    time.tzset()
    tempfile.tempdir = None
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
