"""The first process of a container: waits for its instructions, runs the program, and ends with it.

It is passed to `python3 -c` as text, so it imports nothing of this package. Its instructions arrive
over stdin and not as container options, so a container can be started ahead of its run and `docker
inspect` shows nothing.
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


def main(mounts: list[str]) -> int:
    """Say hello, read one frame (4 bytes of length, then JSON), run it; its exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    ctypes.CDLL(None).prctl(
        _PR_SET_DUMPABLE, 0, 0, 0, 0
    )  # what runs here is the same user, and has no business in this process's memory
    _say(
        {
            "uid": os.getuid(),
            "mounts": {path: list(_identity(path)) for path in mounts},
            "slot": _slot(mounts),
        }
    )
    size = int.from_bytes(_read(4), "big")
    if not size:
        return 0
    instructions = json.loads(_read(size))
    relay = instructions["relay"]
    if relay is not None:
        _start_relay(relay)
    child = os.fork()
    if child == 0:
        _become(instructions)
    return _wait_for(child)


def _say(words: dict[str, object]) -> None:
    data = json.dumps(words).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def _identity(path: str) -> tuple[int, int]:
    at = os.stat(path)  # noqa: PTH116  as little as can be is imported here
    return at.st_dev, at.st_ino


def _slot(mounts: list[str]) -> str | None:
    """What stands in the mark that the daemon put into the folder of sockets: that it is this
    machine's folder, and that one.
    """
    for path in mounts:
        try:
            with open(f"{path}/.slot", encoding="ascii") as file:  # noqa: PTH123  as little as can be is imported here
                return file.read(100)
        except OSError:
            continue
    return None


def _read(size: int) -> bytes:
    """Exactly so many bytes, and none of what follows, which is for the program; fewer when there
    have ended.
    """
    found = b""
    while len(found) < size and (more := os.read(0, size - len(found))):
        found += more
    return found


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


def _become(instructions: dict[str, object]) -> None:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.setsid()
        os.chdir(str(instructions["cwd"]))
        command, env = instructions["command"], instructions["env"]
        os.execvpe(command[0], command, env)  # type: ignore[index,arg-type]  # noqa: S606  what this process is for
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
    sys.exit(main(sys.argv[1:]))
