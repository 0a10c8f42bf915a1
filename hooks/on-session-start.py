#!/usr/bin/env python3
"""Give a new session the context files of where it works, and what was talked about of late."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

NAMES = ("AGENTS.md", "CLAUDE.md")  # where a folder has both, the first counts
DAYS, LINES = 3, 20
MOST = 9_000  # characters: more than 10,000 would come as a file's name


def main() -> None:
    """Read the event, and answer with the text as context."""
    event = json.load(sys.stdin)
    vault = Path(event["vault_path"]).resolve()
    data = event.get("data") or {}
    folder = Path(data.get("working_directory") or event.get("cwd") or vault).resolve()
    files = list(context_files(vault, folder))
    sources = [str(file.relative_to(vault)) for file in files]
    parts = [
        *(f"## {source}\n\n{read(file)}" for source, file in zip(sources, files, strict=True)),
        *activity(vault),
    ]
    text = "\n\n".join(parts)
    if text:
        text = text if len(text) <= MOST else f"{text[:MOST]}\n(cut here)"
        name = event.get("hook_event_name", "SessionStart")
        answer = {"hookEventName": name, "additionalContext": text, "sources": sources}
        json.dump({"hookSpecificOutput": answer}, sys.stdout)


def context_files(vault: Path, folder: Path) -> Iterator[Path]:
    """The context file of each folder from the vault down to the session's own: what comes later
    counts more.
    """
    if not folder.is_relative_to(vault):
        return
    for place in [folder, *folder.parents][::-1]:
        if place.is_relative_to(vault):
            found = next(
                (
                    place / name
                    for name in NAMES
                    if (place / name).is_file() and not (place / name).is_symlink()
                ),
                None,
            )
            if found is not None:
                yield found


def activity(vault: Path) -> Iterator[str]:
    """The last lines of the record of activity."""
    folder = vault / ".parachute" / "activity"
    days = sorted(folder.glob("*.jsonl"))[-DAYS:] if folder.is_dir() else []
    lines = []
    for day in days:
        for line in read(day).splitlines():
            try:
                entry = json.loads(line)
                lines.append(
                    f"- {str(entry['ts'])[:16]} {entry.get('session_title') or 'untitled'}: "
                    f"{entry['summary']}"
                )
            except (ValueError, KeyError, TypeError):
                continue  # a line that is none
    if lines:
        yield "## Recent activity\n\n" + "\n".join(lines[-LINES:])


def read(file: Path) -> str:
    """A file's text, as far as it is one."""
    try:
        return file.read_text("utf-8-sig", "replace").strip()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
