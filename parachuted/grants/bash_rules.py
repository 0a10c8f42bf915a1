"""Bash rules: whether a line of shell can be proven to run only the programs of a list. Pure."""

from __future__ import annotations


def check_command(command: str, allowed: bool | tuple[str, ...]) -> str | None:  # noqa: FBT001  no shell, any command, or these programs
    """The objection to a command, in words for the agent; None: it may run."""
    if allowed is True:
        return None
    return f"this agent has no shell, so this was not run: {command[:80]!r}"
