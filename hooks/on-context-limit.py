#!/usr/bin/env python3
"""Write down what a session has come to before its context is compacted, so that nothing of it is
lost.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NOTE = "Chat/memory/{day}.md"
MOST, LONGEST = 20, 500
LARGEST = 64 << 20
WAIT_S = 5


def main() -> None:
    """Add the last exchanges to the day's note, through the daemon: a person may be writing
    in it.
    """
    event = json.load(sys.stdin)
    data, now = event.get("data") or {}, datetime.now(UTC)
    session = str(event.get("session_id") or data.get("session_id") or "unknown")
    tokens, threshold = data.get("token_count"), data.get("threshold")
    lines = [
        f"- {now:%H:%M} UTC: {tokens} tokens of context, limit at {threshold}",
        *exchanges(event.get("transcript_path") or ""),
    ]
    note = NOTE.format(day=f"{now:%Y-%m-%d}")
    if keep(note, f"Session {session}", "\n".join(lines)):
        json.dump({"systemMessage": f"what was said last is kept in {note}"}, sys.stdout)


def exchanges(transcript: str) -> list[str]:
    """The last things that were said, from a transcript as the agent keeps it: one JSON object a
    line.
    """
    file = Path(transcript)
    if not transcript or not file.is_file() or file.stat().st_size > LARGEST:
        return []
    lines = (said(line) for line in file.read_text("utf-8", "replace").splitlines())
    return [line for line in lines if line][-MOST:]


def said(line: str) -> str:
    """What was said in that line, as an item of a list; empty: nothing."""
    try:
        entry: Any = json.loads(line)
        kind, content = entry["type"], entry["message"]["content"]
    except (ValueError, KeyError, TypeError):
        return ""
    pieces = content if isinstance(content, list) else [{"type": "text", "text": content}]
    text = " ".join(
        str(piece.get("text", ""))
        for piece in pieces
        if isinstance(piece, dict) and piece.get("type") == "text"
    )
    text = " ".join(text.split())
    if kind not in {"user", "assistant"} or not text:
        return ""
    return f"- **{kind}**: {text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}"


def keep(note: str, section: str, text: str) -> bool:
    """Add to a section of the note, and make either where it is missing. Whether that was done."""
    body = {"section": section, "content": text, "mode": "append", "create": True}
    path = f"/api/notes/{urllib.parse.quote(note)}"
    status = ask("PATCH", path, body)
    if status == 404:  # noqa: PLR2004  HTTP's
        ask(
            "PUT",
            path,
            {
                "content": f"# {Path(note).stem}\n\n> What sessions had come to when their "
                "context was full.\n"
            },
            new=True,
        )
        status = ask("PATCH", path, body)
    return status is not None and status < 300  # noqa: PLR2004


def ask(method: str, path: str, body: object, *, new: bool = False) -> int | None:
    """The status of the daemon's answer; None: there is none.

    The record in the home says where it listens.
    """
    try:
        home = Path(os.environ.get("PARACHUTE_HOME") or Path.home() / ".parachute")
        daemon = json.loads((home / "run" / "daemon.json").read_text())
        url = f"http://{daemon['host']}:{daemon['port']}{path}"
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {daemon['token']}",
            **({"If-None-Match": "*"} if new else {}),
        }
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"{method} {path}: {error}\n")
        return None


if __name__ == "__main__":
    main()
