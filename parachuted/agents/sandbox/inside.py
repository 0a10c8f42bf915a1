"""The first process of a container: runs the program, and ends with it.

It is passed to `python3 -c` as text, so it imports nothing of this package.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys

_GRACE_S = (
    10  # for a program whose input has ended: the daemon is gone, or waits for its last words
)
_RELAY_LIMIT = 64
_PR_SET_DUMPABLE = 4


def main(instructions: dict[str, object]) -> int:
    """Print the mark of the slot, run the program; its exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    ctypes.CDLL(None).prctl(
        _PR_SET_DUMPABLE, 0, 0, 0, 0
    )  # what runs here is the same user, and has no business in this process's memory
    os.write(1, f"{_mark(str(instructions['mark']))}\n".encode())
    relay = instructions["relay"]
    if relay is not None:
        _start_relay(relay)  # type: ignore[arg-type]
    child = os.fork()
    if child == 0:
        _become(instructions["command"])  # type: ignore[arg-type]
    return _wait_for(child)


def _mark(path: str) -> str:
    """What the daemon wrote into the folder of sockets: it tells that this machine's folders are
    mounted, and which.
    """
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123  as little as can be is imported here
            return file.read(100)
    except OSError:
        return ""


def _start_relay(relay: dict[str, object]) -> None:
    """Listen before the program runs, so that it never comes too early."""
    listening = socket.create_server(("127.0.0.1", int(str(relay["port"]))), backlog=_RELAY_LIMIT)
    if os.fork() != 0:
        listening.close()
        return
    try:
        nothing = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1):
            os.dup2(nothing, number)
        names: dict[str, object] = {"__name__": "relay"}
        exec(compile(str(relay["source"]), "relay", "exec"), names)  # noqa: S102  the daemon's own text, from its own package
        names["serve"](listening, relay["socket"])  # type: ignore[operator]
    finally:
        os._exit(1)


def _become(command: list[str]) -> None:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.setsid()
        os.execvp(command[0], command)  # noqa: S606  what this process is for
    except OSError as error:
        os.write(2, f"the program could not be started: {error}\n".encode())
    finally:
        os._exit(127)


def _wait_for(child: int) -> int:
    """Reap whatever ends; answer once the program has.

    With this process all others of the container end.
    """
    input_ended_for = 0
    while True:
        signal.sigtimedwait({signal.SIGCHLD}, 1.0)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 1
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if pid == 0:
                break
        input_ended_for += _has_input_ended()
        if input_ended_for > _GRACE_S:
            return 143


def _has_input_ended() -> bool:
    poll = select.poll()
    poll.register(0, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
