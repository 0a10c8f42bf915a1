"""The conversations there are, and those of Claude Code that are adopted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from parachuted.cli.client import ask
from parachuted.cli.show import count, escape, say, say_json, say_table, when
from parachuted.errors import NotFoundError, ParachuteError

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import Any

_MOST = 50
_SHOWN = 60
_IMPORT_S = 600.0
_SPOKEN = frozenset({"user", "assistant"})
_KEPT = ("type", "uuid", "timestamp", "isSidechain", "isMeta", "summary")


def list_conversations(*, as_json: bool) -> int:
    """Print the newest conversations."""
    answer = ask("GET", f"/api/chat?limit={_MOST}")
    if as_json:
        return say_json(answer)
    rows = [
        (
            one["id"],
            when(one["updatedAt"]),
            str(one["messageCount"]),
            (one["title"] or one["path"])[:_SHOWN],
        )
        for one in answer["sessions"]
    ]
    say_table(rows, ("ID", "LATEST", "MESSAGES", "TITLE"), nothing="No conversations yet.")
    if answer["next"]:
        say(f"The newest {_MOST}; the rest is in Chat/sessions/ of your vault.")
    return 0


def adopt(names: Sequence[str], *, is_sure: bool, as_json: bool) -> int:
    """Adopt Claude Code's transcripts, or say what that would do. The files are read here, as the
    person, so the daemon needs no right to them; they stay as they are.

    Returns 1 if one could not be read.
    """
    files = [file for name in names for file in _files(Path(name).expanduser())]
    data = [_transcript(file) for file in files]
    body: dict[str, object] = {"data": data, "dry_run": not is_sure}
    report = ask("POST", "/api/import", body, timeout_s=_IMPORT_S)
    if as_json:
        return say_json(report) or int(bool(report["errors"]))
    for one in report["conversations"]:
        state = "there already" if one["is_there"] else "adopted" if is_sure else "new"
        said = count(one["message_count"], "message")
        say(f"{state:14} {escape(one['title'][:_SHOWN])} ({said})")
    for problem in (*report["errors"], *report["warnings"]):
        say(f"{'left out':14} {escape(problem)}")
    if not is_sure:
        say("Nothing was done; with --yes it is.")
    elif report["run"]:
        say(f"Take all of it back with: parachute undo {report['run']}")
    return int(bool(report["errors"]))


def _files(path: Path) -> list[Path]:
    """That file, or the transcripts of that folder. NotFoundError."""
    inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    found = [one for one in inside if one.is_file()]  # a FIFO would be waited for
    if not found:
        raise NotFoundError(f"{path} is neither a transcript (*.jsonl) nor a folder of transcripts")
    return found


def _transcript(file: Path) -> dict[str, object]:
    """What the daemon needs of it: what was said, and the names of tools."""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            events = [event for line in lines for event in _event(line)]
    except OSError as error:
        raise ParachuteError(f"{file} cannot be read: {error.strerror}") from error
    named = next((one["sessionId"] for one in events if one.get("sessionId")), file.stem)
    return {"sessionId": named, "events": events}


def _event(line: str) -> Iterator[dict[str, Any]]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):  # the last line of a session that was killed
        return
    if not isinstance(event, dict) or event.get("type") not in {*_SPOKEN, "summary"}:
        return
    kept = {name: event[name] for name in (*_KEPT, "sessionId") if name in event}
    message = event.get("message")
    if isinstance(message, dict):
        kept["message"] = {"content": _content(message.get("content"))}
    yield kept


def _content(content: object) -> object:
    if not isinstance(content, list):
        return content
    return [
        {name: one[name] for name in ("type", "text", "id", "name") if name in one}
        for one in content
        if isinstance(one, dict) and one.get("type") in {"text", "tool_use", "image"}
    ]
