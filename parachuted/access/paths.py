"""Control: which paths of a vault no agent writes, whatever its grant says, and which are no notes. Pure.

What begins with a dot decides over programs (`.claude/settings.json`, `.mcp.json`, `.git/hooks`), `Modules/` is code, and what is ticked in
`Suggestions/` is done: whether such a file stands there already makes no difference.
"""

from __future__ import annotations

import unicodedata

_SHOWN = frozenset({".agents"})
_PROGRAMS = "modules"
_APPROVALS = "suggestions"


def is_hidden(path: str) -> bool:
    """Whether a name on the way begins with a dot, and is not one that holds notes."""
    return any(name.startswith(".") and name not in _SHOWN for name in map(plain, path.split("/"))) if path else False


def is_code(path: str) -> bool:
    """Whether it is in the folder of modules, or is that folder."""
    return _top(path) == _PROGRAMS


def is_control(path: str) -> bool:
    """Whether it is a program's, or decides over one: unwritable for every agent, existing or not."""
    return _top(path) in {_PROGRAMS, _APPROVALS} or any(plain(name).startswith(".") for name in path.split("/"))


def plain(name: str) -> str:
    """The name as a file system that is lenient about case, invisible characters and dots at the end would take it."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(one for one in folded if unicodedata.category(one) != "Cf").rstrip(" .") or folded


def _top(path: str) -> str:
    return plain(path.partition("/")[0])
