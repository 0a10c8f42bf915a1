"""What a conversation needs of the CLI's transport, for a process and a container alike."""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import Any, cast

from claude_agent_sdk import CLIJSONDecodeError, Transport

LINE_LIMIT = 32 * 1024 * 1024
LOGGED_CHARS = 500


class AgentTransport(Transport):
    """The SDK's transport, which we can end: `close` leaves nothing of what the CLI ever
    started.
    """

    @abstractmethod
    def allow_grace(self, seconds: float) -> None:
        """Let the CLI end by itself when it is closed, so that it writes its session down."""

    @abstractmethod
    def kill(self) -> None:
        """End it, without waiting."""


def parse_line(line: bytes) -> dict[str, Any]:
    """Read a line that the CLI printed. Raises CLIJSONDecodeError."""
    try:
        return cast("dict[str, Any]", json.loads(line))
    except (ValueError, RecursionError) as error:
        raise CLIJSONDecodeError(line[:LOGGED_CHARS].decode(errors="replace"), error) from error
