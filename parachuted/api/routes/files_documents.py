"""Files documents: the shapes of answers about single files and folders.

Times are ISO 8601 in UTC, paths relative to the vault.
"""

from __future__ import annotations

from typing_extensions import TypedDict

from parachuted.times import Time


class FolderEntryResponse(TypedDict):
    """A file, a folder or a link in a folder.

    `symlinkTarget` is where a link leads; `size` is in bytes, of files only.
    """

    name: str
    type: str
    path: str
    relativePath: str
    isDirectory: bool
    isSymlink: bool
    symlinkTarget: str | None
    hasAgentsMd: bool
    hasClaudeMd: bool
    isGitRepo: bool
    lastModified: Time | None
    size: int | None


class FolderResponse(TypedDict):
    """What is in a folder: folders first, each kind by name."""

    path: str
    entries: list[FolderEntryResponse]


class FileReadResponse(TypedDict):
    """A text. `hash` is its SHA-256 in hex, and the base to name when it is written."""

    path: str
    content: str
    size: int
    lastModified: Time
    hash: str


class FileWriteResponse(TypedDict):
    """A text that was written.

    `replaced`: the digest of one that was overwritten with no base to compare it with; history has
    it.
    """

    success: bool
    path: str
    size: int
    lastModified: Time
    hash: str
    merged: bool
    replaced: str | None


class FileUploadResponse(TypedDict):
    """A file that was put in its place.

    `replaced`: the digest of what was overwritten; history has it.
    """

    path: str
    size: int
    hash: str
    created: bool
    replaced: str | None
