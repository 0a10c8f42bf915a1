"""The files of an agent's private copy of notes, and how they follow the vault.

A file that the agent may not have is left out, with the reason; what strangers wrote is left out
and counted.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from parachuted.access.grant import Grant
from parachuted.access.origin import UNTRUSTED, Taint
from parachuted.access.origins import Origins
from parachuted.access.private_text import without_private
from parachuted.errors import (
    ActRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.tools.hostile_folder import (
    FileStamp,
    FolderContents,
    HostileFolder,
    ReadRefusedError,
    StillChangingError,
    shown,
)
from parachuted.vault import (
    NOTE_SUFFIXES,
    FileContent,
    IndexEntry,
    Store,
    VaultIndex,
    VaultPath,
    digest_of,
    printable,
)

log = logging.getLogger(__name__)

MOST_FILES = 20_000
MOST_BYTES = 256 << 20
LARGEST_FILE = 32 << 20
LARGEST_WRITE = 16 << 20
_LARGEST_BASE = 1 << 20
_SEEN_AT_ONCE = 200
_SWAPPED = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY}
)


@dataclass(slots=True)
class CopiedFile:
    """A file as it was copied: the vault's digest, the index entry, and the copy's stamp."""

    digest: str
    entry: IndexEntry | None = None
    mark: FileStamp | None = None


@dataclass(slots=True)
class Refusals:
    """What is not taken from the copy: paths as they may be shown, with the reason."""

    refused: list[tuple[str, str]]

    def add(self, path: str, reason: str) -> None:
        self.refused.append((shown(path), reason))


class VaultCopy:
    """One run's copy. Methods block on the disk; OSError as the system gives it.

    `files` are those that were copied, by path.
    """

    def __init__(
        self,
        *,
        store: Store,
        index: VaultIndex,
        grant: Grant,
        origins: Origins,
        taint: Taint,
        folder: HostileFolder,
    ) -> None:
        self._root, self._store, self._index = store.root, store, index
        self._grant, self._origins, self._taint = grant, origins, taint
        self.folder = folder
        self.files: dict[str, CopiedFile] = {}
        self.unread: set[str] = set()
        self._left_out: dict[str, str] = {}
        self._strangers: set[str] = set()
        self._version = -1

    @property
    def is_current(self) -> bool:
        """Whether nothing in the vault has changed since the last look."""
        return self._index.version == self._version

    def fill(self) -> int:
        """Copy what the grant reads; returns its bytes.

        Raises ActRefusedError when that is too much for a container.
        """
        self._version = self._index.version
        granted = list(self._granted())
        total = sum(entry.size for _, entry in granted)
        if len(granted) > MOST_FILES or total > MOST_BYTES:
            raise ActRefusedError(
                f"{self._grant.agent} is granted {len(granted):,} files of {total >> 20:,} MB, and "
                f"a container is given at most {MOST_FILES:,} of {MOST_BYTES >> 20} MB; narrow its "
                "paths"
            )
        size, seen = 0, dict[VaultPath, bytes]()
        for path, entry in granted:
            content = self._readable(path)
            if content is None:
                continue
            mark = self.folder.put(path, content.data)
            self.files[path] = CopiedFile(content.digest, entry, mark)
            size += len(content.data)
            if _is_base(path, content):
                seen[path] = content.data
            if len(seen) >= _SEEN_AT_ONCE:
                self._store.bases.see(seen.items())
                seen = {}
        self._store.bases.see(seen.items())
        for name, mark in self.walk().files.items():  # no process works in it yet
            self.files[name].mark = mark
        return size

    def walk(self) -> FolderContents:
        return self.folder.walk(MOST_FILES * 2)

    def left_out(self) -> Iterator[tuple[str, str]]:
        """What is not in the copy, and why.

        The names that strangers gave are texts of theirs, which a run is not told unasked.
        """
        for path, why in self._left_out.items():
            if self._taint or self._origins.of(path) not in UNTRUSTED:
                yield printable(path), why
        if self._strangers:
            why = (
                "text of strangers, which list_notes with its folder finds, and read_note alone "
                "reads"
            )
            yield f"({len(self._strangers)} files)", why

    def _granted(self) -> Iterator[tuple[VaultPath, IndexEntry]]:
        for folder in self._index.below(""):
            if self._grant.may_enter(folder):
                for name, entry in tuple(self._index.entries(folder).items()):
                    path = VaultPath(f"{folder}/{name}" if folder else name)
                    if self._grant.may_read(path) and not self._root.ignore.hides(path):
                        yield path, entry

    def _readable(self, path: VaultPath) -> FileContent | None:
        """A file of the vault as this agent may have it in its copy; None, and the reason is kept:
        it may not.
        """
        self._left_out.pop(path, None)
        self._strangers.discard(path)
        try:
            with self._root.straight():
                size = self._root.size(path)
                content = self._root.read(path) if size <= LARGEST_FILE else None
        except NotFoundError:
            return None
        except ParachuteError as error:
            self._left_out[path] = error.message
            return None
        if content is None:
            self._left_out[path] = f"it is larger than {LARGEST_FILE >> 20} MB"
            return None
        if without_private(content.data) is not content.data:
            self._left_out[path] = "it has a private part; read_note reads the rest of it"
            return None
        if self._origins.of_text(path, content.data, content.digest) in UNTRUSTED:
            self._strangers.add(path)
            return None
        return content

    def refresh(self) -> Iterator[str]:
        """Bring in what changed in the vault, except where the agent changed the copy; yields the
        paths, as they may be shown.
        """
        self._version = self._index.version
        now = dict(self._granted())
        walked = self.walk()
        changed = self._changed(walked)
        new = [path for path in now if path not in self.files]
        for path in [*map(VaultPath, self.files), *new]:
            copied, entry = self.files.get(path), now.get(path)
            if (
                (copied is not None and copied.entry == entry)
                or path in changed
                or (copied is None and path in walked.files)
            ):
                continue
            try:
                if self._refresh_file(path, copied, entry):
                    yield printable(path)
            except OSError as error:
                if error.errno not in _SWAPPED:
                    raise
                self._version = -1  # its program swaps folders under us; it is tried again

    def _refresh_file(
        self, path: VaultPath, copied: CopiedFile | None, entry: IndexEntry | None
    ) -> bool:
        """Make the copy of one file what the vault has; whether it was another."""
        if copied is None and len(self.files) >= MOST_FILES:
            return False
        content = self._readable(path)
        if content is None:
            if copied is not None:
                self.drop(path)
            return copied is not None
        if copied is not None and copied.digest == content.digest:
            copied.entry = entry
            return False
        self._copy(path, content, entry)
        return True

    def _copy(self, path: VaultPath, content: FileContent, entry: IndexEntry | None) -> None:
        if _is_base(path, content):
            self._store.bases.see([(path, content.data)])
        mark = self.folder.put(path, content.data)
        self.files[path] = CopiedFile(content.digest, entry, mark)

    def drop(self, path: str) -> None:
        self.folder.remove(path)
        self.files.pop(path, None)

    def _changed(self, walked: FolderContents) -> set[str]:
        changed = set()
        for path, copied in self.files.items():
            mark = walked.files.get(path)
            if mark is None or (mark != copied.mark and self._digest(path) != copied.digest):
                changed.add(path)
        return changed

    def _digest(self, path: str) -> str | None:
        """What the copy's file holds now; None: unknown."""
        try:
            data, mark = self.folder.read(path, LARGEST_FILE)
        except (ReadRefusedError, OSError):
            return None
        digest, copied = digest_of(data), self.files.get(path)
        if copied is not None and copied.digest == digest:
            copied.mark = mark
        return digest

    def digests(self, walked: FolderContents, refusals: Refusals) -> dict[str, str]:
        """The digests of the copy's files; of those that were not touched, what is known."""
        found: dict[str, str] = {}
        self.unread.clear()
        for path, mark in walked.files.items():
            copied = self.files.get(path)
            if copied is not None and copied.mark == mark:
                found[path] = copied.digest
                continue
            try:
                data, now = self.folder.read(path, LARGEST_WRITE)
            except FileNotFoundError:
                continue
            except StillChangingError as error:
                self.unread.add(path)
                refusals.add(path, str(error))
                continue
            except ReadRefusedError as error:
                self.unread.add(path)
                self.put_back(VaultPath(path))
                refusals.add(path, str(error))
                continue
            except OSError as error:
                self.unread.add(path)
                refusals.add(path, f"it cannot be read: {error.strerror}")
                continue
            found[path] = digest_of(data)
            if copied is not None and copied.digest == found[path]:
                copied.mark = now
        return found

    def put_back(self, path: VaultPath) -> None:
        """Make the copy of a file what the vault has; nothing, where it has none that this agent
        may see.
        """
        try:
            is_seen = self._grant.may_read(path) and not self._root.ignore.hides(path)
            content = self._readable(path) if is_seen and _is_path(path) else None
            if content is None:
                self.drop(path)
            else:
                self._copy(path, content, None)
        except OSError as error:  # the copy is the agent's own affair: the vault is as it was
            log.warning(
                "an agent's copy could not be put back",
                extra={"path": shown(path), "error": str(error)},
            )


def _is_base(path: VaultPath, content: FileContent) -> bool:
    """Whether a later write may be merged with it."""
    return path.endswith(NOTE_SUFFIXES) and len(content.data) <= _LARGEST_BASE


def _is_path(path: str) -> bool:
    with contextlib.suppress(PathRefusedError):
        VaultPath.parse(path)
        return True
    return False


@contextlib.contextmanager
def failing_disk(what: str) -> Iterator[None]:
    """Turn an OSError inside into StorageFailedError, in words that begin with `what`."""
    try:
        yield
    except OSError as error:
        raise StorageFailedError(f"{what}: {error.strerror or error}", errno=error.errno) from error
