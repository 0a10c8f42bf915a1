"""Inside a container without a network, forwards one port to the daemon's proxy socket.

Passed as text and run beside the program, so it imports nothing of this package.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_PIECE = 1 << 16
_MOST = 64


def serve(listening: socket.socket, path: str) -> None:
    """Carry bytes between each connection and the socket at `path`, for ever; at most 64 at a time,
    more of them wait.
    """
    room = threading.BoundedSemaphore(_MOST)
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
