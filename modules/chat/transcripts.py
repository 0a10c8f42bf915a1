"""Claude Code's transcripts on this machine, in `~/.claude/projects`; they are read and stay."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NotRequired

from typing_extensions import TypedDict

from .importing import Imported, read_export

_MOST: Final = 100
_LARGEST: Final = 32 << 20  # what is read of a transcript
_PREVIEW: Final = 200
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9]")


class ClaudeCodeMessage(TypedDict):
    """What was said."""

    type: str
    content: str
    timestamp: str | None


class ClaudeCodeSession(TypedDict):
    """A session of Claude Code, as the app reads it; `messages` where one is asked for."""

    sessionId: str
    title: str
    firstMessage: str
    messageCount: int
    createdAt: str | None
    lastTimestamp: str | None
    model: str | None
    cwd: str | None
    projectPath: str | None
    projectDisplayName: str
    messages: NotRequired[list[ClaudeCodeMessage]]


class ClaudeCodeProject(TypedDict):
    """A folder that Claude Code was used in; `encodedName` is its name among the transcripts."""

    encodedName: str
    path: str
    sessionCount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One of them. `document` is what an import takes, `found` what that would make of it."""

    file: Path
    document: dict[str, Any]
    found: Imported

    @property
    def session(self) -> ClaudeCodeSession:
        events = self.document["events"]
        cwd = next((one["cwd"] for one in events if isinstance(one.get("cwd"), str)), None)
        spoken = (one.get("message") for one in events if one.get("type") == "assistant")
        models = (one.get("model") for one in spoken if isinstance(one, dict))
        said = self.found.messages
        times = [one.at for one in said if one.at]
        return ClaudeCodeSession(
            sessionId=self.file.stem,
            title=self.found.title,
            firstMessage=said[0].content[:_PREVIEW],
            messageCount=len(said),
            createdAt=times[0] if times else None,
            lastTimestamp=times[-1] if times else None,
            model=next((one for one in models if isinstance(one, str)), None),
            cwd=cwd,
            projectPath=cwd,
            projectDisplayName=Path(cwd).name if cwd else self.file.parent.name,
        )

    @property
    def messages(self) -> list[ClaudeCodeMessage]:
        return [
            ClaudeCodeMessage(type=one.role, content=one.content, timestamp=one.at)
            for one in self.found.messages
        ]


class Transcripts:
    """Reads them. Blocks on the disk; what cannot be read is passed over."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def newest(self, project: str | None = None) -> list[ClaudeCodeSession]:
        """The latest, of all projects or of one, by its path or its name among them."""
        names = None if project is None else {project, _NOT_PLAIN.sub("-", project.rstrip("/"))}
        files = [
            one for one in self._files() if names is None or not names.isdisjoint({one.parent.name})
        ]
        found = filter(None, map(_read, files[:_MOST]))
        return [one.session for one in found]

    def projects(self) -> list[ClaudeCodeProject]:
        """All of them, the last used first."""
        by_name: dict[str, list[Path]] = {}
        for file in self._files():
            by_name.setdefault(file.parent.name, []).append(file)
        found = []
        for name, files in by_name.items():
            last = next(filter(None, map(_read, files)), None)
            path = last.session["cwd"] if last is not None else None
            found.append(
                ClaudeCodeProject(
                    encodedName=name, path=path or name.replace("-", "/"), sessionCount=len(files)
                )
            )
        return found

    def get(self, session_id: str) -> Transcript | None:
        """That one; None: there is none in which anything was said."""
        if not _ID.fullmatch(session_id):
            return None
        found = [one for one in self._files() if one.stem == session_id]
        return next(filter(None, map(_read, found)), None)

    def _files(self) -> list[Path]:
        """The newest first; links and what is no file are left out."""
        return [path for _, path in sorted(_transcripts(self._folder), reverse=True)]


def _transcripts(folder: Path) -> Iterator[tuple[int, Path]]:
    for project in _entries(folder):
        if project.is_dir(follow_symlinks=False):
            for one in _entries(Path(project.path)):
                if one.name.endswith(".jsonl") and one.is_file(follow_symlinks=False):
                    yield one.stat(follow_symlinks=False).st_mtime_ns, Path(one.path)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:  # Claude Code was never used here, or keeps it to itself
        return []


def _read(file: Path) -> Transcript | None:
    try:
        with file.open("rb") as opened:
            data = opened.read(_LARGEST)
    except OSError:
        return None
    events = [event for line in data.split(b"\n") for event in _event(line)]
    named = next((str(one["sessionId"]) for one in events if one.get("sessionId")), file.stem)
    document: dict[str, Any] = {"sessionId": named, "events": events}
    found, _ = read_export(document)
    return Transcript(file=file, document=document, found=found[0]) if found else None


def _event(line: bytes) -> Iterator[dict[str, Any]]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):  # the last line of a session that was killed
        return
    if isinstance(event, dict):
        yield event
