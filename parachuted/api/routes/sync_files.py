"""Sync files: puts, reads and removes files for a device, one at a time, so that one which fails
does not hold up the others.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from typing_extensions import TypedDict

from parachuted.access.filter import AccessFilter
from parachuted.api.http.route import refuse_watching_beyond
from parachuted.api.routes.note_writer import refuse_programs
from parachuted.errors import (
    ConflictError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.keys import AccessGrant
from parachuted.sync import BINARY_SUFFIXES, can_be_merged, put_whole
from parachuted.vault import (
    Author,
    FileContent,
    KnownBases,
    Store,
    VaultPath,
    VaultRoot,
    digest_of,
    printable,
)


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


log = logging.getLogger(__name__)

_LARGEST_PULL = 64 << 20
_MISSING = "unknown file below the root"


@dataclass(slots=True, kw_only=True)
class Push:
    """Puts files below a root and remembers what became of each. Blocks on the disk."""

    store: Store
    sight: AccessFilter
    readable: AccessGrant
    author: Author
    root: VaultPath
    touched: list[str] = field(default_factory=list)
    results: list[PushedFileResponse] = field(default_factory=list)
    conflicts: list[PushConflictResponse] = field(default_factory=list)

    def put(self, path: str, content: str, *, is_binary: bool, base: str | None) -> None:
        """Put one file. Never fails: its result says what is wrong."""
        try:
            place = _placed(self.root, path, self.sight)
            refuse_programs(place)
            data = _bytes(content, is_binary=is_binary)
            refuse_watching_beyond(self.readable, self.store, place, lambda _before: data)
            put = put_whole(
                self.store, place, data, self.author, base=base, sees=self.readable.sees
            )
        except ConflictError as error:
            self._clash(path, place, error)
        except ParachuteError as error:
            self._add(path, "refused", message=error.message)
        else:
            if put.outcome != "unchanged":
                self.touched.append(put.path)
            self._add(path, put.outcome, digest=put.hash, replaced=put.replaced)

    def response(self) -> PushResponse:
        results = self.results
        return {
            "pushed": sum(result["status"] not in {"refused", "conflict"} for result in results),
            "errors": [
                f"{result['path']}: {result['message']}"
                for result in results
                if result["status"] == "refused"
            ],
            "results": results,
            "conflicts": self.conflicts,
        }

    def _add(
        self,
        path: str,
        status: str,
        *,
        digest: str | None = None,
        replaced: str | None = None,
        message: str | None = None,
    ) -> None:
        self.results.append(
            {
                "path": printable(path),
                "status": status,
                "hash": digest,
                "replaced": replaced,
                "message": message,
            }
        )

    def _clash(self, path: str, place: VaultPath, error: ConflictError) -> None:
        """Texts of the vault are for who may read them: to write is not to read."""
        is_text = can_be_merged(error.base, error.ours, error.theirs)
        base, ours, theirs = (
            _content(data, is_binary=not is_text) for data in (error.base, error.ours, error.theirs)
        )
        digest = digest_of(error.theirs)
        if not self.readable.sees(place):
            base, theirs = "", ""
        conflict: PushConflictResponse = {
            "path": printable(path),
            "base": base or None,
            "ours": ours,
            "theirs": theirs,
            "theirs_hash": digest,
            "is_binary": not is_text,
        }
        self.conflicts.append(conflict)
        self._add(
            path,
            "conflict",
            digest=digest,
            message="it changed here too; both texts are under conflicts",
        )


@dataclass(slots=True, kw_only=True)
class Pull:
    """Reads files below a root. Blocks on the disk."""

    root: VaultPath
    vault: VaultRoot
    bases: KnownBases
    sight: AccessFilter
    touched: list[str] = field(default_factory=list)
    handed_out: list[tuple[str, bytes]] = field(default_factory=list)

    def read(self, paths: Iterable[str]) -> PullResponse:
        """All of them, but for those that cannot be had; at most 64 MB at once."""
        files: list[PulledFileResponse] = []
        errors, room = [], _LARGEST_PULL
        for path in dict.fromkeys(paths):
            try:
                place = _placed(self.root, path, self.sight)
                content = self._content(place, room)
            except ParachuteError as error:
                errors.append(f"{printable(path)}: {error.message}")
                continue
            room -= len(content.data)
            self.touched.append(place)
            self.handed_out.append((place, content.data))
            files.append(_pulled(path, content))
        return {"files": files, "errors": errors}

    def keep(self) -> None:
        """Keep what was handed out as bases that a push may name; those that cannot be kept clash,
        should it come to that.
        """
        for path, data in self.handed_out:
            try:
                self.bases.keep(path, data)
            except StorageFailedError as error:
                log.warning(
                    "a text that a device has could not be kept as a base",
                    extra={"error": error.message},
                )

    def _content(self, path: VaultPath, room: int) -> FileContent:
        size = self.vault.size(path)
        if size > room:
            raise PathRefusedError(
                f"it is too large for this answer; GET /api/files/{printable(path)} streams it"
            )
        return self.vault.read(path)


@dataclass(slots=True, kw_only=True)
class Removal:
    """Deletes files below a root. Blocks on the disk."""

    store: Store
    sight: AccessFilter
    author: Author
    root: VaultPath
    deleted: int = 0
    errors: list[str] = field(default_factory=list)

    def existing(self, paths: Iterable[str]) -> list[VaultPath]:
        """Those that are there, each once.

        What is missing, hidden or out of scope is reported in the same words.
        """
        found: dict[VaultPath, None] = {}
        for path in dict.fromkeys(paths):
            try:
                place = _under(self.root, path)
                refuse_programs(self.sight.find(place))
                self.sight.root.size(place)
            except NotFoundError:
                self.errors.append(f"{printable(path)}: {_MISSING}")
                continue
            except ParachuteError as error:
                self.errors.append(f"{printable(path)}: {error.message}")
                continue
            found[place] = None
        return list(found)

    def remove(self, paths: Sequence[VaultPath]) -> list[VaultPath]:
        gone = []
        for path in paths:
            try:
                gone.append(self.store.delete(path, self.author).path)
            except NotFoundError:
                continue
            except ParachuteError as error:
                self.errors.append(f"{printable(path)}: {error.message}")
        self.deleted += len(gone)
        return gone

    def response(self, message: str | None = None) -> SyncDeleteResponse:
        """The answer; `message`: why nothing was deleted."""
        return {
            "deleted": self.deleted,
            "errors": self.errors,
            "confirm_needed": message is not None,
            "message": message,
        }


def _under(root: VaultPath, path: str) -> VaultPath:
    return VaultPath.parse(f"{root}/{VaultPath.parse(path)}" if root else path)


def _placed(root: VaultPath, path: str, sight: AccessFilter) -> VaultPath:
    """Where the file is, or would be.

    Raises NotFoundError for what does not exist for the caller, PathRefusedError for what is no
    path.
    """
    return sight.find(_under(root, path))


def _bytes(content: str, *, is_binary: bool) -> bytes:
    try:
        return base64.b64decode(content, validate=True) if is_binary else content.encode("utf-8")
    except (binascii.Error, ValueError) as error:  # UnicodeEncodeError is a ValueError
        raise PathRefusedError(
            "the content is not base64" if is_binary else "the content is not UTF-8"
        ) from error


def _content(data: bytes, *, is_binary: bool) -> str:
    return base64.b64encode(data).decode() if is_binary else data.decode("utf-8")


def _pulled(path: str, content: FileContent) -> PulledFileResponse:
    is_binary = path.lower().endswith(BINARY_SUFFIXES) or not can_be_merged(content.data)
    return {
        "path": printable(path),
        "content": _content(content.data, is_binary=is_binary),
        "is_binary": is_binary,
        "hash": content.digest,
        "size": len(content.data),
        "modified": content.status.st_mtime,
    }
