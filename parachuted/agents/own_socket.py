"""A unix socket in a run's private folder, for everyone who can see that folder."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def listen_in(folder: Path, name: str) -> socket.socket:
    """Bind it, in place of one that was left there, for a server to listen on.

    OSError when it cannot be.

    The folder says who may come in: a container's user has another number than ours, so the socket
    itself refuses nobody. A socket's name has room for some hundred bytes, a folder's for more: it
    is named through the folder's descriptor, where there are such.
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
