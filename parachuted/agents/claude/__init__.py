"""Claude: the backend that runs the Claude Agent SDK.

Loaded at its first use, since it is heavy.
"""

from parachuted.agents.claude.backend import ClaudeBackend

__all__ = ["ClaudeBackend"]
