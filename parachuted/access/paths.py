"""Paths: which paths of a vault no agent may write, whatever its grant says. Pure.

What begins with a dot decides over programs (`.claude/settings.json`, `.git/hooks`), `Modules/` is
code, and what is ticked in `Suggestions/` is done. Names are compared as the most lenient file
system would.
"""

from __future__ import annotations

from parachuted.vault import begins_with_dot, fold_name

_SHOWN = ".agents"
_PROGRAMS = "modules"
_APPROVALS = "suggestions"


def is_hidden(path: str) -> bool:
    """Whether a name on the way begins with a dot, apart from those that hold notes."""
    if (
        path.isascii()
        and not path.startswith(".")
        and "/." not in path
        and "~" not in path
        and "\\" not in path
    ):
        return False
    return any(begins_with_dot(name) and fold_name(name) != _SHOWN for name in _names(path))


def is_code(path: str) -> bool:
    return _top(path) == _PROGRAMS


def is_approval(path: str) -> bool:
    """A box that is ticked there changes other files of the vault."""
    return _top(path) == _APPROVALS


def is_control(path: str) -> bool:
    """Unwritable for every agent, whether it exists or not."""
    return _top(path) in {_PROGRAMS, _APPROVALS} or any(map(begins_with_dot, _names(path)))


def _names(path: str) -> list[str]:
    return path.replace("\\", "/").split("/")  # which separates names too, to an SMB server


def _top(path: str) -> str:
    return fold_name(path.replace("\\", "/").partition("/")[0])
