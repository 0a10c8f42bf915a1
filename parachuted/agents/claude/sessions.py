"""What the CLI recorded of an earlier conversation.

The CLI counts a session's cost from its first day, so the cost of one run is a difference.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from parachuted.agents.claude.transcript import TranscriptUsage, sum_usage

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_KIND = b'"type":"cost-state"'
_TAIL = 1024 * 1024


def is_session_id(text: str) -> bool:
    """Whether the text can be a session's name, and nothing else: it becomes part of a path and of
    an argument.
    """
    return _ID.fullmatch(text) is not None


def load_spent(home: Path, session_id: str) -> TranscriptUsage:
    """Read what a session had cost when it was last closed; nothing, if that is not known."""
    for path in (home / ".claude" / "projects").glob(f"*/{session_id}.jsonl"):
        for line in reversed(_tail(path).split(b"\n")):
            if _KIND in line:
                return _parse(line)
    return TranscriptUsage()


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read()


def _parse(line: bytes) -> TranscriptUsage:
    try:
        entry = json.loads(line)
    except ValueError:
        return TranscriptUsage()
    return sum_usage(entry.get("totalCostUSD"), entry.get("modelUsage"))
