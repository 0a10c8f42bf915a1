"""Bash rules: where an agent may run some programs only, a line of shell is one simple command.

What a listed program runs itself (git its hooks, npm its scripts) is not looked at: the container
is the wall.
"""

from __future__ import annotations

import shlex
from typing import Final

_EXPANDED: Final = "$`\n\r\0"  # bash reads these in double quotes too
_OPERATORS: Final = frozenset("();<>|&")
_SHOWN: Final = 80


def check_command(command: str, allowed: bool | tuple[str, ...]) -> str | None:  # noqa: FBT001  no shell, any command, or these programs
    """The objection to a command, in words for the agent; None: it may run."""
    if allowed is True:
        return None
    if not allowed:
        return "you have no shell, so this was not run"
    problem = _problem(command, allowed)
    if problem is None:
        return None
    return (
        f"this was not run: {problem}. You may run {', '.join(allowed)}, one command at a time: "
        "without pipes, redirections, $, ` or line breaks"
    )


def _problem(command: str, allowed: tuple[str, ...]) -> str | None:
    if found := next((one for one in command if one in _EXPANDED), None):
        return f"it holds {found!r}"
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError as error:
        return f"it cannot be read ({str(error).lower()})"
    if not words:
        return "it is empty"
    if words[0] not in allowed:
        return f"{words[0][:_SHOWN]!r} is not among your programs"
    operator = next((word for word in words if word and _OPERATORS.issuperset(word)), None)
    return None if operator is None else f"it holds the operator {operator[:_SHOWN]}"
