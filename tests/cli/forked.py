"""Forked: a command in a process of its own, forked from one that has imported all of it, and the
daemon that it starts in the background, forked from the command; the program of an untrusted
module; and daemons that are killed.

Starting Python and importing what a command needs takes 0.3 s of processor time, all of a daemon
more than a second, a fork 0.01 s. What is forked has its own environment, folder, standard streams
and exit code.
"""

from __future__ import annotations

import asyncio
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
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 1 << 20
NUMBER = 4
COMMAND, MODULE = "parachuted.cli", "parachuted.modules.hosting.container_main"
HEAVY = ("parachuted.daemon", "parachuted.modules", MODULE, "aiohttp.web", "mcp", "ruamel.yaml")
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

    def fork(
        self,
        program: str,
        words: tuple[str, ...] = (),
        *,
        env: Mapping[str, str],
        files: Sequence[int] = (),
        cwd: Path = ROOT,
        forks_daemon: bool = False,
    ) -> ForkedProcess:
        """Run `main` of that program with its standard files, of which the first ones may be left
        out; do not wait.
        """
        said = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        said.connect(self._address)
        said.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST)
        asked = json.dumps([program, words, dict(env), str(cwd), forks_daemon]).encode()
        socket.send_fds(said, [asked], files)
        return ForkedProcess(int.from_bytes(said.recv(NUMBER), "big"), said)

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
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            files = [out.fileno(), err.fileno()]
            process = self.fork(
                COMMAND, words, files=files, env=env, cwd=cwd, forks_daemon=forks_daemon
            )
            try:
                code = process.wait_at_most(timeout_s)
            except TimeoutError:
                process.kill()
                raise subprocess.TimeoutExpired(words, timeout_s) from None
            for file in (out, err):
                file.seek(0)
            said = (file.read().decode().replace("\r\n", "\n") for file in (out, err))
            return subprocess.CompletedProcess(words, code, *said)


class ForkedProcess:
    """A process that was forked; `said` tells how it ended."""

    def __init__(self, pid: int, said: socket.socket) -> None:
        self.pid, self._said = pid, said
        self.returncode: int | None = None

    def kill(self, how: int = signal.SIGKILL) -> None:
        """Send it a signal, if it has not ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, how)

    def terminate(self) -> None:
        self.kill(signal.SIGTERM)

    def wait_at_most(self, seconds: float) -> int:
        """How it ended. Raises TimeoutError."""
        self._said.settimeout(seconds)
        return self._ended(self._said.recv(NUMBER))

    async def wait(self) -> int:
        """How it ended."""
        if self.returncode is None:
            self._said.settimeout(0)
            loop = asyncio.get_running_loop()
            self._ended(await loop.sock_recv(self._said, NUMBER))
        return self.returncode

    def _ended(self, said: bytes) -> int:
        self._said.close()
        self.returncode = os.waitstatus_to_exitcode(int.from_bytes(said, "big"))
        return self.returncode


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
            asked, files, _flags, _ = socket.recv_fds(connection, LONGEST, 3)
            if not (pid := os.fork()):
                connection.close()
                _be_the_program(files, *json.loads(asked))
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


def _be_the_program(
    files: list[int],
    program: str,
    words: list[str],
    env: Mapping[str, str],
    cwd: str,
    forks_daemon: bool,  # noqa: FBT001  as it came
) -> None:
    if not program.startswith("tests."):
        sys.path.remove(str(ROOT))
    if forks_daemon and {"start", "restart"} & {*words[:1]}:
        stand_in = SimpleNamespace(**{**vars(subprocess), "Popen": ForkedDaemon})
        importlib.import_module("parachuted.cli.daemon").subprocess = stand_in
    _become(program, words, env, cwd, files)


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
            _become(COMMAND, words[3:], env, cwd, files)

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


def _become(
    program: str, words: list[str], env: Mapping[str, str], cwd: str, files: list[int]
) -> None:
    nothing = [os.open(os.devnull, os.O_RDWR) for _ in range(3 - len(files))]
    for number, fd in enumerate((*nothing, *files)):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    time.tzset()
    tempfile.tempdir = None
    sys.argv = ["parachute", *words]
    _run(program, words)


def _run(program: str, words: list[str]) -> None:
    """Run it and end as an interpreter does, but for taking all that is imported apart, which costs
    more than most commands.
    """
    code: object = 1
    try:
        main = importlib.import_module(program).main
        code = main(words) if words else main()
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
