"""Chat screen: shows the events of a conversation's turn in a terminal, and asks the person what
the agent asks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence

from parachuted.cli.show import escape, say, say_text

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import Any

_LAST = frozenset({"done", "error", "typed_error", "aborted"})
_LONGEST_INPUT, _LONGEST_RESULT = 120, 300

Answers = dict[str, "str | list[str]"]


class ChatScreen:
    """One turn. `read_line` asks the person a line; None: nobody is there to answer."""

    def __init__(self, read_line: Callable[[str], str | None]) -> None:
        self.session = ""
        self.has_failed = False
        self._read_line = read_line
        self._shown = ""

    def show(self, event: Mapping[str, Any]) -> bool:
        """Show it; whether it was the last."""
        kind = event.get("type")
        self.session = str(event.get("sessionId") or self.session)
        if kind == "text":
            self._text(str(event.get("content") or ""))
        elif kind == "tool_use":
            self._end_line()
            tool = event.get("tool") or {}
            say(f"  - {tool.get('name')} {_brief(tool.get('input') or {})}".rstrip())
            self._shown = ""
        elif kind == "tool_result" and event.get("isError"):
            say(f"    refused: {str(event.get('content') or '')[:_LONGEST_RESULT]}")
        elif kind == "warning":
            self._end_line()
            say(f"  ! {event.get('title')}: {event.get('message')}")
        elif kind in {"error", "typed_error"}:
            self.has_failed = True
            self._end_line()
            say(str(event.get("error") or event.get("message") or "it failed"))
        elif kind == "aborted":
            self._end_line()
            say(str(event.get("message") or "Stopped."))
        elif kind == "done":
            self._end(event)
        return kind in _LAST

    def answers_to(self, questions: Sequence[Mapping[str, Any]]) -> Answers | None:
        """What the person answers to each question; None: nobody is there."""
        self._end_line()
        found: Answers = {}
        for asked in questions:
            options = [str(one.get("label") or "") for one in asked.get("options") or ()]
            say(f"? {asked.get('question')}")
            for number, one in enumerate(asked.get("options") or (), 1):
                about = f": {one['description']}" if one.get("description") else ""
                say(f"  {number}  {one.get('label')}{about}")
            line = self._read_line("  answer> ")
            if line is None:
                return None
            chosen = [_option(part, options) for part in line.split(",")] if options else [line]
            is_many = asked.get("multiSelect") is True
            found[str(asked.get("question"))] = chosen if is_many else ", ".join(chosen)
        return found

    def _text(self, whole: str) -> None:
        """Each event has all of the text since the last tool: show what is new of it."""
        new = whole.removeprefix(self._shown) if whole.startswith(self._shown) else f"\n{whole}"
        sys.stdout.write("\n".join(map(escape, new.split("\n"))))
        sys.stdout.flush()
        self._shown = whole

    def _end(self, event: Mapping[str, Any]) -> None:
        if not self._shown and event.get("response"):
            say_text(str(event["response"]))
        self._end_line()

    def _end_line(self) -> None:
        if self._shown and not self._shown.endswith("\n"):
            say()
        self._shown = ""


def _option(said: str, options: Sequence[str]) -> str:
    """An option by its number, or the words themselves."""
    word = said.strip()
    return options[int(word) - 1] if word.isdecimal() and 0 < int(word) <= len(options) else word


def _brief(arguments: Mapping[str, object]) -> str:
    text = " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in arguments.items()
    )
    return text if len(text) <= _LONGEST_INPUT else f"{text[:_LONGEST_INPUT]}…"
