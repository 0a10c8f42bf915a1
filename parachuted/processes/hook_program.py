"""Hook program: what a hook process runs: one command at a time, of which it ends everything that
was started.

On Linux it is the subreaper of what it runs: a descendant that left its group, forgot its
environment and lost its parents is its own child then, and no other command's. It loads no
more than it needs (no dataclasses, no json): starting it is part of what the first command waits
for. It never outlives its owner: the other end of its socket closes, however that one ended.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator

TERM_S, KILL_S = 0.25, 0.25  # to end by themselves when asked to, and then to be gone
LENGTH = 8

# for a child that still prints when its parent has ended, such as the `tee` of a shell's `> >(tee
# log)`
_FLUSH_S = 0.3
_ROUND_S = 0.02
_CHUNK = 1 << 16
_LAST_READS = 64
_PROC = "/proc"
_PR_SET_CHILD_SUBREAPER = 36
_OUR_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DEFAULT_AGAIN = (*_OUR_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)

Order = tuple[list[bytes], dict[bytes, bytes], bytes, bytes, float, int]
"""What to run: words, environment, folder, stdin, limit in seconds, how many bytes to keep of each
output.
"""

Report = tuple[int | None, str, int, bytes, bytes, float, bool, bool, int, list[int]]
"""How it went: exit code (negative: the signal), what could not be started ("", "folder" or
"program") and its errno, stdout, stderr, milliseconds, whether the limit was reached, whether
output was left out, how many processes it left, which of them would not end.
"""


def main() -> None:
    for number in _OUR_SIGNALS:
        signal.signal(
            number, signal.SIG_IGN
        )  # what ends us is the socket alone: a hook may well say `pkill python`
    control = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    _adopt_orphans()
    wake = _wake_on_children()
    while (order := receive(control)) is not None:
        work = _Work(order, control.fileno(), wake)
        report = work.run()
        if work.is_called_off:
            break
        try:
            send(control, report)
        except OSError:
            break


def receive(control: socket.socket) -> Order | None:
    """The next order; None when there is none to come."""
    head = _exactly(control, LENGTH)
    body = _exactly(control, int.from_bytes(head, "big")) if head else None
    return marshal.loads(body) if body else None  # noqa: S302  both ends are ours, and the same Python


def send(control: socket.socket, report: Report) -> None:
    """Answer an order."""
    control.sendall(frame(report))


def frame(value: Order | Report) -> bytes:
    """An order or an answer as it goes over the socket."""
    body = marshal.dumps(value)
    return len(body).to_bytes(LENGTH, "big") + body


def processes() -> Iterator[tuple[int, int, int, int, bool]]:
    """Every process there is: itself, its parent, its group, its session, whether it lives.

    Nothing where there is no /proc.
    """
    try:
        names = os.listdir(_PROC)  # noqa: PTH208  pathlib costs more to load than all the rest
    except OSError:
        return
    for name in names:
        if name.isdigit():
            try:
                with open(f"{_PROC}/{name}/stat", "rb") as file:  # noqa: PTH123  the same
                    state, parent, group, session = file.read().rpartition(b")")[2].split()[:4]
            except (OSError, ValueError):
                continue  # it ended meanwhile
            yield int(name), int(parent), int(group), int(session), state not in (b"Z", b"X")


def descendants(ancestor: int) -> dict[int, int]:
    """The live descendants of a process, each with its group."""
    seen = list(processes())
    children: dict[int, list[int]] = {}
    for pid, parent, _group, _session, _lives in seen:
        children.setdefault(parent, []).append(pid)
    below: set[int] = set()
    waiting = [ancestor]
    while waiting:
        found = [pid for pid in children.get(waiting.pop(), ()) if pid not in below]
        below.update(found)
        waiting += found
    return {
        pid: group for pid, _parent, group, _session, is_alive in seen if is_alive and pid in below
    }


class _Work:
    def __init__(self, order: Order, control: int, wake: int) -> None:
        self._argv, self._env, self._cwd, self._input, self._limit_s, self._cap = order
        self._control, self._wake = control, wake
        self._fed = 0
        self._leader = 0
        self._exit_code: int | None = None
        self._is_childless = False
        self._stdin = -1
        self._outputs: dict[int, bytearray] = {}
        self._is_cut = False
        self.is_called_off = False

    def run(self) -> Report:
        began = time.monotonic()
        failed, number, kept = "", 0, (bytearray(), bytearray())
        try:
            failed = "folder"
            os.chdir(self._cwd)
            failed = "program"
            kept = self._start()
            failed = ""
        except OSError as error:
            number = error.errno or 0
        finally:
            os.chdir("/")
        if failed:
            return None, failed, number, b"", b"", 0.0, False, False, 0, []
        self._turn(began + self._limit_s, lambda: self.is_called_off or self._exit_code is not None)
        timed_out = self._exit_code is None and not self.is_called_off
        if not timed_out:
            self._turn(time.monotonic() + _FLUSH_S, lambda: self.is_called_off or not self._outputs)
        strays, stubborn = self._end_family()
        self._drain()
        took = (time.monotonic() - began) * 1000
        return (
            self._exit_code,
            "",
            0,
            bytes(kept[0]),
            bytes(kept[1]),
            took,
            timed_out,
            self._is_cut,
            strays,
            stubborn,
        )

    def _start(self) -> tuple[bytearray, bytearray]:
        """Begin, in a session of its own, with pipes of which only our ends stay open here."""
        pipes = [os.pipe(), os.pipe(), os.pipe()]
        theirs, ours = (
            [pipes[0][0], pipes[1][1], pipes[2][1]],
            [pipes[0][1], pipes[1][0], pipes[2][0]],
        )
        try:
            self._leader = _spawn(self._argv, self._env, theirs)
        except BaseException:
            _close(ours)
            raise
        finally:
            _close(theirs)
        for fd in ours:
            os.set_blocking(fd, False)
        self._stdin, out, err = ours
        kept = bytearray(), bytearray()
        self._outputs = {out: kept[0], err: kept[1]}
        self._feed()
        return kept

    def _turn(self, end: float, is_over: Callable[[], bool]) -> None:
        """Feed, read and reap until it is over or the time has come."""
        self._reap()
        while not is_over() and (left := end - time.monotonic()) > 0:
            poll = select.poll()
            for fd in (
                self._wake,
                *self._outputs,
                *(() if self.is_called_off else (self._control,)),
            ):
                poll.register(fd, select.POLLIN)
            if self._stdin >= 0:
                poll.register(self._stdin, select.POLLOUT)
            for fd, _events in poll.poll(left * 1000 + 1):
                self._handle(fd)

    def _handle(self, fd: int) -> None:
        if fd == self._control:
            self.is_called_off = True
        elif fd == self._wake:
            _empty(fd)
            self._reap()
        elif fd == self._stdin:
            self._feed()
        else:
            self._read(fd)

    def _feed(self) -> None:
        """Give of the input what is taken; a command that never reads, or has closed its stdin, is
        no reason to wait.
        """
        try:
            self._fed += os.write(self._stdin, memoryview(self._input)[self._fed :])
        except BlockingIOError:
            return
        except OSError:
            self._fed = len(self._input)
        if self._fed == len(self._input):
            _close([self._stdin])
            self._stdin = -1

    def _read(self, fd: int) -> bool:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            del self._outputs[fd]
            _close([fd])
            return False
        kept = self._outputs[fd]
        room = self._cap - len(kept)
        kept += data[:room]
        self._is_cut = self._is_cut or len(data) > room
        return True

    def _drain(self) -> None:
        """Take what is still in the pipes, and close them: the holder of the other end is not
        waited for.
        """
        for fd in tuple(self._outputs):
            for _ in range(_LAST_READS):
                if not self._read(fd):
                    break
        _close([fd for fd in (self._stdin, *self._outputs) if fd >= 0])
        self._stdin, self._outputs = -1, {}

    def _reap(self) -> None:
        """Take note of every child that has ended: the command, and orphans of its."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._is_childless = True
                return
            if not pid:
                self._is_childless = False
                return
            if pid == self._leader:
                self._exit_code = os.waitstatus_to_exitcode(status)

    def _end_family(self) -> tuple[int, list[int]]:
        """Ask whatever is left to end, then end it; how many there were, and which of them would
        not.
        """
        self._reap()
        if self._is_childless:
            return 0, []
        family = descendants(os.getpid())
        for number in (signal.SIGTERM, signal.SIGCONT):
            _signal(family, number, self._leader)
        self._turn(time.monotonic() + TERM_S, lambda: self._is_childless)
        end = time.monotonic() + KILL_S
        self._kill_children()
        while not self._is_childless and time.monotonic() < end:
            _kill_all(self._leader, end)
            self._kill_children()
            self._turn(min(end, time.monotonic() + _ROUND_S), lambda: self._is_childless)
        stubborn = [] if self._is_childless else sorted(descendants(os.getpid()))
        return len(set(family) - {self._leader}), stubborn

    def _kill_children(self) -> None:
        """Kill our children, and theirs, which become ours, until none is left.

        A look at them takes some 20 microseconds, less than a process needs to fork and end: one
        that does nothing else is caught, where reading all of /proc comes too late. The limit is in
        processor time, so that a busy machine takes nothing of it.
        """
        end = time.process_time() + _ROUND_S
        while time.process_time() < end and (children := _children()):
            for pid in children:
                _send(pid, signal.SIGKILL)
            self._reap()


def _spawn(argv: list[bytes], env: dict[bytes, bytes], ends: list[int]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(ends)]
    how = {"file_actions": actions, "setsigmask": (), "setsigdef": _DEFAULT_AGAIN}
    try:
        return os.posix_spawn(argv[0], argv, env, setsid=True, **how)  # type: ignore[arg-type]
    except NotImplementedError:  # an older macOS: a group of its own is what there is
        return os.posix_spawn(argv[0], argv, env, setpgroup=0, **how)  # type: ignore[arg-type]


def _children() -> list[int]:
    """Our own children, as yet unreaped ones too; empty where the kernel does not list them."""
    try:
        with open(f"{_PROC}/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123  fast
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _kill_all(leader: int, end: float) -> None:
    """Stop what is left until nothing new appears, so that none can go on forking; then end them
    all.
    """
    stopped: dict[int, int] = {}
    while time.monotonic() < end:
        found = descendants(os.getpid())
        if not found.keys() - stopped.keys():
            break
        _signal(found, signal.SIGSTOP, leader)
        stopped.update(found)
    _signal(stopped, signal.SIGKILL, leader)
    for group in {*stopped.values()} - {os.getpgrp()}:
        _send(
            -group,
            signal.SIGKILL,
            # at once for all in it: one that forks and ends faster than /proc is read cannot slip
            # through
        )


def _signal(family: Iterable[int], number: signal.Signals, leader: int) -> None:
    found = tuple(family)
    for pid in found or (-leader,):  # without /proc, the group is what is known of it
        _send(pid, number)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return  # it has ended, or is another user's: then it counts as one that would not end


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  only where it is of use

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wake_on_children() -> int:
    """A descriptor that becomes readable when a child ends."""
    wake, wake_reader = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_reader, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_reader, warn_on_full_buffer=False)
    return wake


def _empty(fd: int) -> None:
    try:
        while os.read(fd, _CHUNK):
            pass
    except BlockingIOError:
        return


def _exactly(control: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = control.recv(min(size - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)
