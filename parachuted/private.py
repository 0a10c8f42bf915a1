"""Private: files of the home, replaced whole or not at all, and readable by their owner alone."""

from __future__ import annotations

import os
from pathlib import Path


def replace_private(path: Path, data: bytes) -> None:
    """Put `data` in the place of that file, or of none, durably; its mode becomes 0600. OSError when the disk refuses."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with open(temporary, "xb", opener=_private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
