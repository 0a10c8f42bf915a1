"""Inside: the first process of a container: runs the program, then ends all others and waits.

So the daemon can read the files. For a program with a network it forwards a port to the socket of
the daemon's proxy. It is passed to `python3 -c` as text, so it imports nothing of this package.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress

# for a program whose input has ended: the daemon is gone, or waits for its last words and files
_GRACE_S = 60
_MOST_CONNECTIONS = 64
_PIECE = 1 << 16
_PR_SET_DUMPABLE = 4
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM)


def main(instructions: dict[str, object]) -> int:
    """Print the mark of the run; run the program once a line was read; its exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which ends no first process, as Python's would
    # what runs here is the same user, and has no business in this process's memory
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.write(1, f"{_mark(str(instructions['mark']))}\n".encode())
    while (character := os.read(0, 1)) != b"\n":  # the files are there then
        if not character:
            return 143
    relay = instructions["relay"]
    if relay is not None:
        _start_relay(*relay)  # type: ignore[misc]
    child = os.fork()
    if child == 0:
        _become(instructions["command"])  # type: ignore[arg-type]
    return _wait_for(child)


def _mark(path: str) -> str:
    """The daemon wrote it: it tells that this machine's folders are mounted, and which."""
    with suppress(OSError), open(path, encoding="ascii") as file:  # noqa: PTH123  as little as can be is imported here
        return file.read(100)
    return ""


def _start_relay(port: int, path: str) -> None:
    """Listen before the program runs, so that it never comes too early."""
    listening = socket.create_server(("127.0.0.1", port), backlog=_MOST_CONNECTIONS)
    if os.fork() != 0:
        listening.close()
        return
    try:
        nothing = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1):
            os.dup2(nothing, number)
        relay(listening, path)
    finally:
        os._exit(1)


def relay(listening: socket.socket, path: str) -> None:
    """Carry bytes between each connection and the socket at `path`, at most 64 at a time."""
    room = threading.BoundedSemaphore(_MOST_CONNECTIONS)
    while True:
        room.acquire()
        try:
            near, _ = listening.accept()
        except OSError:
            room.release()
            continue
        threading.Thread(target=_carry, args=(near, path, room), daemon=True).start()


def _carry(near: socket.socket, path: str, room: threading.BoundedSemaphore) -> None:
    try:
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect(path)
            back = threading.Thread(target=_pump, args=(far, near), daemon=True)
            back.start()
            _pump(near, far)
            back.join()
    except OSError:
        return  # the daemon does not listen: the program sees its connection end
    finally:
        room.release()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_PIECE):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _become(command: list[str]) -> None:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, shells expect it
        os.setsid()
        os.execvp(command[0], command)  # noqa: S606  what this process is for
    except OSError as error:
        os.write(2, f"the program could not be started: {error}\n".encode())
    finally:
        os._exit(127)


def _wait_for(child: int) -> int:
    """Reap whatever ends, until the daemon has read the files, or is gone; the program's exit code.
    SIGTERM ends the program and all that it started.
    """
    poll = select.poll()
    poll.register(0, 0)
    code, input_ended = None, float("inf")
    while time.monotonic() - input_ended <= _GRACE_S:
        came = signal.sigtimedwait(_SIGNALS, 1.0)
        if came is not None and came.si_signo == signal.SIGTERM:
            _end_others()
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    code = os.waitstatus_to_exitcode(ended[1])
                    code = code if code >= 0 else 128 - code
                    _end_with(code)
        if code is not None and os.getpid() != 1:  # in a test
            return code
        if any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0)):
            input_ended = min(input_ended, time.monotonic())
    return 143 if code is None else code


def _end_with(code: int) -> None:
    """End what else runs here, and say how the program ended, after all that it printed."""
    _end_others()
    os.set_blocking(1, True)
    os.write(1, f"\0{code} {_lacked_memory()}\n".encode())


def _end_others() -> None:
    if os.getpid() == 1:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)


def _lacked_memory() -> int:
    """How many processes the kernel has ended here for want of memory."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with suppress(OSError), open(path, encoding="ascii") as file:  # noqa: PTH123  as above
            return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
