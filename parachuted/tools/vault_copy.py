"""The files of an agent's private copy of notes.

A file that the agent may not have is left out, with the reason; what strangers wrote is left out
and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parachuted.access.grant import Grant
from parachuted.access.origin import UNTRUSTED, Taint
from parachuted.access.origins import Origins
from parachuted.access.private_text import without_private
from parachuted.errors import ActRefusedError, NotFoundError, ParachuteError
from parachuted.tools.folder_files import (
    FileStamp,
    LeftOut,
    ReadRefusedError,
    files_in,
    put_file,
    read_file,
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

MOST_FILES = 20_000
MOST_BYTES = 256 << 20
LARGEST_FILE = 32 << 20
LARGEST_WRITE = 16 << 20
_LARGEST_BASE = 1 << 20
_SEEN_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file as it was copied: the vault's digest, and the copy's stamp."""

    digest: str
    stamp: FileStamp


class VaultCopy:
    """One run's copy in `folder`, whose files are `uid`'s. Methods block on the disk; OSError as
    the system gives it.

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
        folder: Path,
        uid: int | None,
    ) -> None:
        self._root, self._store, self._index = store.root, store, index
        self._grant, self._origins, self._taint = grant, origins, taint
        self._folder, self._uid = folder, uid
        self.files: dict[str, CopiedFile] = {}
        self._left_out: dict[str, str] = {}
        self._strangers = 0

    def fill(self) -> int:
        """Copy what the grant reads; returns its bytes.

        Raises ActRefusedError when that is too much for a container.
        """
        granted = list(self._granted())
        total = sum(entry.size for _, entry in granted)
        if len(granted) > MOST_FILES or total > MOST_BYTES:
            raise ActRefusedError(
                f"{self._grant.agent} is granted {len(granted):,} files of {total >> 20:,} MB, and "
                f"a container is given at most {MOST_FILES:,} of {MOST_BYTES >> 20} MB; narrow its "
                "paths"
            )
        size, bases = 0, dict[VaultPath, bytes]()
        for path, _ in granted:
            content = self._readable(path)
            if content is None:
                continue
            stamp = put_file(self._folder, path, content.data, self._uid)
            self.files[path] = CopiedFile(content.digest, stamp)
            size += len(content.data)
            if path.endswith(NOTE_SUFFIXES) and len(content.data) <= _LARGEST_BASE:
                bases[path] = content.data
            if len(bases) >= _SEEN_AT_ONCE:
                self._store.bases.see(bases.items())
                bases = {}
        self._store.bases.see(bases.items())
        return size

    def digests(self, left_out: LeftOut, refused: list[tuple[str, str]]) -> dict[str, str]:
        """The digests of the copy's files, once no program works in it any more; of those that were
        not touched, what is known. Unreadable ones are refused, and count as untouched.
        """
        found: dict[str, str] = {}
        for file in files_in(self._folder, left_out, most=MOST_FILES * 2, opens=True):
            copied = self.files.get(file.path)
            if copied is not None and copied.stamp == file.stamp:
                found[file.path] = copied.digest
                continue
            try:
                found[file.path] = digest_of(file.read(LARGEST_WRITE))
            except (ReadRefusedError, OSError) as error:
                refused.append((shown(file.path), _why(error)))
                if copied is not None:
                    found[file.path] = copied.digest
        return found

    def read(self, path: VaultPath) -> bytes:
        """What the copy holds there. Raises ReadRefusedError and OSError."""
        return read_file(self._folder / path, LARGEST_WRITE)

    def left_out(self) -> Iterator[tuple[str, str]]:
        """What is not in the copy, and why.

        The names that strangers gave are texts of theirs, which a run is not told unasked.
        """
        for path, why in self._left_out.items():
            if self._taint or self._origins.of(path) not in UNTRUSTED:
                yield printable(path), why
        if self._strangers:
            why = (
                "text of strangers, which list_notes names when it is asked, and read_note alone "
                "reads"
            )
            yield f"({self._strangers} files)", why

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
            self._strangers += 1
            return None
        return content


def _why(error: ReadRefusedError | OSError) -> str:
    return (
        str(error)
        if isinstance(error, ReadRefusedError)
        else f"it cannot be read: {error.strerror}"
    )
