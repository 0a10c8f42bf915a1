#!/usr/bin/env python3
"""Load the context file of a project as soon as it is mentioned."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

try:
    import frontmatter
    import yaml
except ModuleNotFoundError:  # this is another Python than the daemon's, which has them
    daemon_python = os.environ.get("PARACHUTE_PYTHON", sys.executable)
    if daemon_python == sys.executable:
        raise
    os.execv(daemon_python, [daemon_python, *sys.argv])  # noqa: S606  the daemon's own

NAMES = ("AGENTS.md", "CLAUDE.md")
SUREST = 0.5  # what is less sure is left alone
MOST = 9_000


def main() -> None:
    """Answer with the project's text as context, or with nothing."""
    event = json.load(sys.stdin)
    data, vault = event.get("data") or {}, Path(event["vault_path"]).resolve()
    para_id = str(data.get("para_id") or "")
    if not para_id or (data.get("confidence") or 0) < SUREST:
        return
    found = next((file for file in candidates(vault, para_id) if inside(file, vault)), None)
    if found is None:
        return
    text = found.read_text("utf-8-sig", "replace")
    text = text if len(text) <= MOST else f"{text[:MOST]}\n(cut here)"
    source = str(found.resolve().relative_to(vault))
    context = f"## {source}\n\n{text}"
    name = event.get("hook_event_name", "brain.mention.detected")
    answer = {"hookEventName": name, "additionalContext": context, "sources": [source]}
    json.dump({"hookSpecificOutput": answer}, sys.stdout)


def candidates(vault: Path, para_id: str) -> Iterator[Path]:
    """Where the project's context file may be: where it has that id itself, or where Brain's entity
    of that id says.
    """
    for name in NAMES:
        yield from (
            file
            for file in sorted((vault / "Projects").rglob(name))
            if text_of(keys_of(file).get("para_id")) == para_id
        )
    for entity in sorted((vault / "Brain").rglob("*.md")):
        found = keys_of(entity)
        keys = {
            key: text_of(found.get(key)) for key in ("para_id", "name", "agents_path", "work_path")
        }
        if keys["para_id"] != para_id:
            continue
        if keys["agents_path"]:
            yield vault / keys["agents_path"]
        for called in (
            keys["work_path"],
            *(f"Projects/{name}" for name in (keys["name"], entity.stem) if name),
        ):
            yield from (vault / called / name for name in NAMES if called)


def keys_of(file: Path) -> dict[str, object]:
    """The frontmatter of a note that may name a para-id; nothing where it cannot be read."""
    try:
        text = file.read_text("utf-8-sig", "replace")
        return frontmatter.loads(text).metadata if "para_id" in text else {}
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}


def text_of(value: object) -> str:
    """A value of the frontmatter as text; nothing is none."""
    return "" if value is None else str(value).strip()


def inside(file: Path, vault: Path) -> bool:
    """Whether it is a file of the vault, links followed: a note must not be able to name any file
    of the machine.
    """
    return file.is_file() and file.resolve().is_relative_to(vault)


if __name__ == "__main__":
    main()
