"""Archive: the tar archives by which files go into a container and come back.

What comes back was made by an agent's programs: it is read member by member, and only regular files
with a name for a note count. Each name begins with `./`, since some first bytes mean to the engine
that an archive is compressed.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from parachuted.access.paths import is_hidden
from parachuted.errors import ParachuteError
from parachuted.vault import IgnoreRules
from parachuted.vault.paths import refusal

_READABLE = 0o444
_END, _LONGEST_END = 2 * tarfile.BLOCKSIZE, 2 * tarfile.RECORDSIZE


class ReadRefusedError(ParachuteError):
    """The message says why it is not a file that can be taken."""


@dataclass(slots=True)
class LeftOut:
    """`why` is by path (the empty one: the rest of the folder); `hidden` counts dot names."""

    why: dict[str, str] = field(default_factory=dict)
    hidden: int = 0

    def is_known(self, path: str) -> bool:
        """A file that was not found is gone: nothing else is in its place, and all was seen."""
        while path and path not in self.why:
            path = path.rpartition("/")[0]
        return not path and "" not in self.why


class ArchiveWriter:
    """`owner` None: it is root's there, for all to read."""

    def __init__(self, file: Path, owner: tuple[int, int] | None) -> None:
        # GNU's form keeps names that are not UTF-8 as they are, and the engine reads it
        self._tar = tarfile.open(file, "w", format=tarfile.GNU_FORMAT)  # noqa: SIM115  closed by `close`
        self._owner, self._folders = owner, set[PurePosixPath]()

    def close(self) -> None:
        self._tar.close()

    def add(self, path: str, data: bytes) -> None:
        """A file by its path below the folder; the folders on the way come with it. OSError."""
        for folder in reversed(PurePosixPath(path).parents):
            if folder.name and folder not in self._folders:
                self._folders.add(folder)
                self._add(str(folder), tarfile.DIRTYPE, b"")
        self._add(path, tarfile.REGTYPE, data)

    def _add(self, path: str, kind: bytes, data: bytes) -> None:
        member = tarfile.TarInfo(f"./{path}")
        member.type, member.size = kind, len(data)
        member.mode = 0o700 if kind == tarfile.DIRTYPE else 0o600
        if self._owner is None:
            member.mode = _READABLE | (0o111 if kind == tarfile.DIRTYPE else 0)
        else:
            member.uid, member.gid = self._owner
        self._tar.addfile(member, io.BytesIO(data))


class ArchiveReader:
    """Raises OSError, also where the archive is cut off."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("rb")
        self._found: dict[str, tuple[int, int]] = {}

    def close(self) -> None:
        self._file.close()

    def files(self, left_out: LeftOut, *, most: int, largest: int) -> Iterator[tuple[str, bytes]]:
        """Each that can be a note's or an attachment's. `largest` is in bytes."""
        rules, seen = IgnoreRules(), 0
        for member in self._members():
            path = member.name.partition("/")[2]
            folder, _, name = path.rpartition("/")
            if not path:  # the folder itself
                continue
            if is_hidden(path):
                left_out.hidden += not is_hidden(folder)
                continue
            seen += 1
            if seen > most:
                left_out.why[""] = f"there are more than {most:,} files, so not all were looked at"
                return
            try:
                if not left_out.is_known(path):  # its folder is left out
                    continue
                _check(path, member)
                if not member.isdir() and not rules.file(folder, name):
                    self._found[path] = member.offset_data, member.size
                    yield path, self.read(path, largest)
            except ReadRefusedError as error:
                left_out.why[path] = error.message

    def read(self, path: str, most: int) -> bytes:
        """Raises ReadRefusedError for more than `most` bytes."""
        start, size = self._found[path]
        if size > most:
            raise ReadRefusedError(f"larger than {most >> 20} MB")
        self._file.seek(start)
        data = self._file.read(size)
        if len(data) < size:
            raise OSError(0, "the archive cannot be read (it is cut off)")
        return data

    def _members(self) -> Iterator[tarfile.TarInfo]:
        """To its end, where two empty blocks and nothing else follow: tarfile also stops, and says
        nothing, at what it cannot read, and what is missing would count as deleted.
        """
        try:
            tar = tarfile.open(fileobj=self._file, mode="r:")  # noqa: SIM115  `close` closes the file
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # there may be 200,000
                yield member
            self._file.seek(tar.offset)
            rest = self._file.read(_LONGEST_END)
            if not _END <= len(rest) < _LONGEST_END or rest.strip(b"\0"):
                raise tarfile.ReadError("its end is missing")
        except (tarfile.TarError, ValueError) as error:  # such as for a name's bytes
            raise OSError(0, f"the archive cannot be read ({error})") from error


def _check(path: str, member: tarfile.TarInfo) -> None:
    if (why := refusal(path)) is not None:
        raise ReadRefusedError(f"no name for a note: {why}")
    if member.type not in (tarfile.REGTYPE, tarfile.DIRTYPE):
        raise ReadRefusedError("it is not a plain file")
