#!/usr/bin/env python3
"""Note down what a session was about, in the record of activity that the next one is shown."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TITLE, SUMMARY = 80, 300
LARGEST = 8 << 20


def main() -> None:
    """Append one line; a session in which nothing was said leaves none."""
    event = json.load(sys.stdin)
    data = event.get("data") or {}
    asked = questions(event.get("transcript_path") or "")
    count = data.get("message_count") or len(asked)
    if not count:
        return
    now = datetime.now(UTC)
    minutes = round((data.get("duration") or 0) / 60)
    line = {
        "ts": now.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "session_id": event.get("session_id") or data.get("session_id"),
        "session_title": shortened(data.get("title") or (asked[0] if asked else ""), TITLE) or None,
        "agent_type": data.get("agent_type"),
        "exchange_number": count,
        "summary": shortened(
            f"{count} messages in {minutes} minutes. {'Last: ' + asked[-1] if asked else ''}",
            SUMMARY,
        ),
    }
    append(Path(event["vault_path"]), f"{now:%Y-%m-%d}.jsonl", json.dumps(line, ensure_ascii=False))


def questions(transcript: str) -> list[str]:
    """What a person said, from a transcript as the agent keeps it: one JSON object a line."""
    file = Path(transcript)
    if not transcript or not file.is_file() or file.stat().st_size > LARGEST:
        return []
    return [
        text for line in file.read_text("utf-8", "replace").splitlines() if (text := said(line))
    ]


def said(line: str) -> str:
    """What a person said in that line of it; empty: nothing."""
    try:
        entry: Any = json.loads(line)
        content = entry["message"]["content"] if entry["type"] == "user" else ""
    except (ValueError, KeyError, TypeError):
        return ""
    pieces = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [
        str(piece.get("text", ""))
        for piece in pieces
        if isinstance(piece, dict) and piece.get("type") == "text"
    ]
    return " ".join(" ".join(texts).split())


def shortened(text: str, most: int) -> str:
    """The text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def append(vault: Path, name: str, line: str) -> None:
    """Add a line in one write, so that two sessions that end at once do not mix; no link is
    followed out of the vault.
    """
    folder = vault / ".parachute" / "activity"
    for part in (folder.parent, folder):
        if part.is_symlink():
            sys.exit(f"{part} is a link, so nothing was written there")
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(
        folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644
    )
    try:
        os.write(descriptor, f"{line}\n".encode("utf-8", "replace"))
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main()
