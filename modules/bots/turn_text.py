"""What a turn has said so far, from its events. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ENDED: Final = frozenset({"done", "error", "typed_error", "aborted"})


class TurnText:
    """The text of one turn: that between two calls of tools is a paragraph of its own."""

    def __init__(self) -> None:
        self.has_ended = False
        self._before: list[str] = []
        self._current = ""

    @property
    def whole(self) -> str:
        return "\n\n".join(filter(None, (one.strip() for one in (*self._before, self._current))))

    def read(self, event: Mapping[str, Any]) -> None:
        kind = event["type"]
        if kind == "text":
            self._current = str(event["content"])
        elif kind == "tool_use":
            self._before.append(self._current)
            self._current = ""
        elif kind in _ENDED:
            self.has_ended = True
            self._before.append(self._current)
            self._current = _ending(event)


def _ending(event: Mapping[str, Any]) -> str:
    if event["type"] == "done":
        return ""
    if event["type"] == "aborted":
        return "(Stopped.)"
    words = [str(event.get(name) or "") for name in ("title", "message")]
    return f"({': '.join(filter(None, words)) or 'The turn failed.'})"
