"""The CLI's file on this machine, which is mounted into each container."""

from __future__ import annotations

import stat
from importlib.util import find_spec
from pathlib import Path

from parachuted.errors import AgentUnavailableError


def find_cli() -> Path | None:
    """The CLI in the agent SDK's wheel, found without importing that."""
    found = find_spec("claude_agent_sdk")
    for place in (found.submodule_search_locations or []) if found is not None else []:
        cli = Path(place) / "_bundled" / "claude"
        if cli.is_file():
            return cli.resolve()
    return None


def check_cli(cli: Path) -> Path:
    """A program of this machine's owner, and nothing else, is ever mounted as the CLI."""
    found = cli.resolve()
    try:
        mode = found.stat().st_mode
    except OSError as error:
        raise AgentUnavailableError(f"there is no program {cli}: {error.strerror}") from error
    if not stat.S_ISREG(mode) or not mode & stat.S_IXUSR or mode & stat.S_IWOTH:
        raise AgentUnavailableError(f"{cli} is not a program that only its owner can change")
    return found
