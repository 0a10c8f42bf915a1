"""Sync documents: the shapes of answers to a device.

Paths are relative to the root that was asked about; times are Unix seconds.
"""

from __future__ import annotations

from typing_extensions import TypedDict


class SyncFileResponse(TypedDict):
    """One file.

    `hash` is the SHA-256 of its bytes in hex; of a quick listing, any text that changes with the
    file.
    """

    path: str
    hash: str
    size: int
    modified: float


class SyncManifestResponse(TypedDict):
    """All files asked for."""

    files: list[SyncFileResponse]


class SyncChangeResponse(TypedDict):
    """A file that changed."""

    path: str
    size: int
    modified: float


class SyncChangesResponse(TypedDict):
    """The files that changed since then."""

    files: list[SyncChangeResponse]


class PushedFileResponse(TypedDict):
    """What became of one file.

    `status`: created, written, merged, unchanged, conflict or refused. `hash`: what stands there
    now. `replaced`: the digest of what was overwritten with no base to compare it with; history has
    it. `message`: why it was refused.
    """

    path: str
    status: str
    hash: str | None
    replaced: str | None
    message: str | None


class PushConflictResponse(TypedDict):
    """A file that was not written since it changed here too: both texts, and the one that they
    began with where it is known.

    Of binary files the texts are base64. `theirs_hash` is the base to name when the file is pushed
    again.
    """

    path: str
    base: str | None
    ours: str
    theirs: str
    theirs_hash: str
    is_binary: bool


class PushResponse(TypedDict):
    """How many files are as the device sent them, or merged; and what became of each."""

    pushed: int
    errors: list[str]
    results: list[PushedFileResponse]
    conflicts: list[PushConflictResponse]


class PulledFileResponse(TypedDict):
    """A file's content; base64 when it is binary."""

    path: str
    content: str
    is_binary: bool
    hash: str
    size: int
    modified: float


class PullResponse(TypedDict):
    """The files that could be had."""

    files: list[PulledFileResponse]
    errors: list[str]


class SyncDeleteResponse(TypedDict):
    """How many files were deleted; history has them.

    `confirm_needed`: nothing was, since it would be over a fifth of the vault.
    """

    deleted: int
    errors: list[str]
    confirm_needed: bool
    message: str | None
