"""Why a program could not be started, in words that say what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from parachuted.processes.hook_process import ProcessOrder

_FIRST_LINE = 256
_SAYS = {
    errno.E2BIG: "its arguments and its environment are longer than the system takes",
    errno.ETXTBSY: "it is being written at this moment; it can run when that is done",
    errno.ENOEXEC: "it has no first line such as #!/bin/sh, and is not a program otherwise",
    errno.EAGAIN: "the system has no room for another process",
    errno.ENOMEM: "the system has no memory left for it",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open on this machine",
}
_LINE_IS_WRONG = {errno.ENOENT: "not on this machine", errno.ENOEXEC: "not a program"}


def explain(order: ProcessOrder, failed: str, number: int, *, is_sure: bool = True) -> str | None:
    """Why `failed` ("folder" or "program") could not be entered or started, from what is on disk.

    Without `is_sure` something was started and exited with an error; None unless its first line
    explains that.
    """
    if failed == "folder":
        return f"the folder {order.cwd} could not be entered: {os.strerror(number)}"
    path = order.cwd / os.fsdecode(order.argv[0])
    line = _shebang(path)
    if line.endswith("\r"):
        return (
            f"the first line of {path.name} ends as Windows ends lines, so that no program has "
            "its name; save it with Unix line ends"
        )
    if not is_sure:
        return None
    if number == errno.EACCES:
        return _forbidden(path, line)
    if line and number in _LINE_IS_WRONG:
        return f"the first line of {path.name} names {line}, which is {_LINE_IS_WRONG[number]}"
    return (
        f"there is no {path}"
        if number == errno.ENOENT
        else f"{path.name} could not be started: {_SAYS.get(number, os.strerror(number))}"
    )


def _forbidden(path: Path, line: str) -> str:
    if path.is_dir():
        return f"{path} is a folder, not a program"
    if not os.access(path, os.X_OK):
        return f"{path.name} may not be run; `chmod +x {path}` allows it"
    return f"{path.name} could not be started: {line or path} may not be run"


def _shebang(path: Path) -> str:
    """The program named in the first line, as written; empty if none."""
    try:
        with path.open("rb") as file:
            line = file.read(_FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return ""
    return line[2:].decode(errors="replace").lstrip(" ") if line.startswith(b"#!") else ""
