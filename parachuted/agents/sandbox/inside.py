"""Inside: the first process of a run's container. The run's program is started beside it.

It reaps what ends, and lives as long as the daemon holds its input: so the files can be read when
the program has ended. For a program with a network it carries connections from a port to the
socket of the daemon's proxy. It is passed to `python3 -c` as text, so it imports nothing of this
package.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
from contextlib import suppress

_MOST_CONNECTIONS = 64
_PIECE = 1 << 16
_PR_SET_DUMPABLE = 4


def main(arguments: list[str]) -> None:
    """Print a byte once it is ready; with a port and a path, as a relay."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps then
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which ends no first process, as Python's would
    # what runs here is the same user, and has no business in this process's memory
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if arguments:
        port, path = arguments
        listening = socket.create_server(("127.0.0.1", int(port)), backlog=_MOST_CONNECTIONS)
        threading.Thread(target=relay, args=(listening, path), daemon=True).start()
    os.write(1, b"\n")
    os.read(0, 1)


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


if __name__ == "__main__":
    main(sys.argv[1:])
