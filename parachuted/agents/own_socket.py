"""A unix socket in a run's private folder, for everyone who can see that folder."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def listen_in(folder: Path, name: str) -> socket.socket:
    """Bind the socket for a server to listen on, replacing an old one.

    Raises OSError. The folder's permissions decide who can connect: a container's user has another
    uid, so the socket itself refuses no one. A socket path is limited to about a hundred bytes, so
    it goes through the folder's descriptor where the system allows.
    """
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        through = Path(f"/proc/self/fd/{at}")
        path = (through if through.exists() else folder) / name
        path.unlink(missing_ok=True)
        bound.bind(os.fspath(path))
        path.chmod(0o666)
        bound.setblocking(False)  # noqa: FBT003  the standard library's
    except BaseException:
        bound.close()
        raise
    finally:
        os.close(at)
    return bound
