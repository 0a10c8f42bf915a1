"""Network mounts: whether a folder is on a file system that other machines change without inotify
noticing.

Linux alone tells what is mounted in a file; elsewhere no file system is known to be one, and the
canary has to do.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
_TYPES = re.compile(
    r"9p|afs|beegfs|ceph|cifs|coda|drvfs|fakeowner|gfs2|glusterfs|lustre|ncpfs|nfs4?|ocfs2|prl_fs|smb3|smbfs|vboxsf|virtiofs|vmhgfs"
    r"|fuse\.(?:davfs2?|gcsfuse|glusterfs|grpcfuse|osxfs|rclone|s3fs|smbnetfs|sshfs|vmhgfs-fuse)"
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def network_mount(folder: Path) -> str | None:
    """The type of the network file system of the folder, or of a folder in it; None: none
    is known.
    """
    try:
        table = MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return None
    return network_type(os.fspath(folder), table)


def network_type(folder: str, table: str) -> str | None:
    """The same, from the text of /proc/self/mountinfo (proc(5)).

    Of two mounts on one folder the later one counts.
    """
    below, holding = f"{folder.rstrip('/')}/", ("", "")
    mounts = {
        place: kind
        for line in table.splitlines()
        if (mount := _mount(line)) is not None
        for place, kind in (mount,)
    }
    for place, kind in mounts.items():
        if below.startswith(f"{place.rstrip('/')}/"):
            holding = max(holding, (place, kind), key=lambda found: len(found[0]))
        elif place.startswith(below) and _TYPES.fullmatch(kind):
            return kind
    return holding[1] if _TYPES.fullmatch(holding[1]) else None


def _mount(line: str) -> tuple[str, str] | None:
    before, mark, after = line.partition(" - ")
    fields = before.split(" ")
    if not mark or len(fields) < 5:  # noqa: PLR2004  the mount point is the fifth
        return None
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4]), after.split(" ")[0]
