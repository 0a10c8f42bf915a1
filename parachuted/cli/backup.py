"""Backup: the vault and the home in one archive, consistent while the daemon works, and an archive
brought back.

What is there is added first, at leisure; what has changed by then is looked for again while the
daemon is held still, for as long as that takes. So the archive is what a power failure at that
moment would have left, which the daemon's next start settles. The archive's last member lists what
counts: a file that was added twice counts as it was the last time.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import tarfile
import tempfile
import time
import zlib
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, TypeAlias
from urllib.parse import quote

from parachuted import __version__
from parachuted.cli.client import home_of
from parachuted.cli.commands import Commands, add_command, add_json
from parachuted.cli.setup import load
from parachuted.cli.show import count, say, say_json
from parachuted.config import set_setting
from parachuted.errors import ParachuteError
from parachuted.presence import is_locked, refuse_second, running_daemon
from parachuted.private import is_in

_LIST = "backup.json"
_NOT_KEPT = frozenset(
    {"run", "logs"}
)  # of the home: sockets and locks of a daemon that lives, and what it said
_DATABASE = b"SQLite format 3\0"
_BESIDE_DATABASE = ("-wal", "-shm", "-journal")
_REBUILT = frozenset({"search.db"})
_PASSES = 2
_IN_MEMORY = 16 << 20
# a file that changed less than this ago may change once more within the same tick of its time stamp
_SETTLED_NS = 100_000_000
_Signature: TypeAlias = tuple[int, tuple[tuple[int, int, int], ...]]
_Member: TypeAlias = tuple[tarfile.TarInfo, IO[bytes] | None]


def add_parsers(commands: Commands) -> None:
    """Add these commands to the parser."""
    backup_parser = add_command(
        commands,
        "backup",
        backup,
        "the vault and the home in one file",
        "Write the vault, the settings, the keys and the history into one archive, while the "
        "daemon works; `restore` brings it back.",
    )
    backup_parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="where (default: parachute-DATE-TIME.tar.gz in this folder)",
    )
    add_json(backup_parser)


def backup(options: Namespace) -> int:
    """`parachute backup [FILE]`."""
    home = Path(home_of(os.environ))
    record = running_daemon(os.fspath(home))
    vault = Path(str(record["vault"])) if record is not None else load({}).vault
    if not vault.is_dir():
        raise ParachuteError(f"no vault at {vault}")
    target = (
        Path(options.file or f"parachute-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
        .expanduser()
        .absolute()
    )
    for folder in (vault, home):
        if is_in(target.resolve(), folder.resolve()):
            raise ParachuteError(
                f"{target} is in {folder}, which it is to hold; name a file elsewhere"
            )
    if target.exists():
        raise ParachuteError(f"{target} is there already, and stays as it is")
    partial = target.with_name(f"{target.name}.partial")
    try:
        with open(partial, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            made = _Archive(file, vault, home).make(record)
            os.fsync(file.fileno())
        partial.rename(target)
    except OSError as error:
        raise ParachuteError(
            f"{error.filename or target}: {error.strerror}; no backup was written"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    if options.json:
        say_json(
            {
                "file": os.fspath(target),
                "bytes": target.stat().st_size,
                **{name: made[name] for name in ("vault", "home")},
            }
        )
        return 0
    say(
        f"Wrote {target}: {count(len(made['members']), 'file')} and folders of {vault} and "
        f"{home}, {_size(target.stat().st_size)}."
    )
    say("It holds your keys and logins: keep it as you keep those.")
    return 0


class _Archive:
    """One archive as it is written."""

    def __init__(self, file: IO[bytes], vault: Path, home: Path) -> None:
        self._file, self._folders = file, {"home": home, "vault": vault}
        self._added: dict[str, _Signature] = {}
        self._present: set[str] = set()

    def make(self, record: dict[str, object] | None) -> dict[str, Any]:
        """Write it; the list that is its last member. `record`: of the daemon at work."""
        with (
            gzip.GzipFile(fileobj=self._file, mode="wb", compresslevel=6) as zipped,
            tarfile.open(fileobj=zipped, mode="w|") as tar,
        ):
            for _pass in range(_PASSES):
                for member in self._changed():
                    _add(tar, *member)
            with _held(record):
                changed = list(self._changed())
            for member in changed:
                _add(tar, *member)
            made = {
                "format": 1,
                "version": __version__,
                "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "vault": os.fspath(self._folders["vault"]),
                "home": os.fspath(self._folders["home"]),
                "members": sorted(self._present),
            }
            _add(tar, tarfile.TarInfo(_LIST), io.BytesIO(json.dumps(made).encode()))
        return made

    def _changed(self) -> Iterator[_Member]:
        """What is new or other than it was when it was last yielded; read whole, so that it may go
        on changing.
        """
        self._present = set()
        for kind, folder in self._folders.items():
            for path in sorted(
                _files(folder, kind), key=lambda path: not _is_database(path)
            ):  # they name other files, which are older
                name = f"{kind}/{os.path.relpath(path, folder)}"
                try:
                    looked = time.time_ns()
                    signature = _signature(path)
                    if self._added.get(name) != signature:
                        yield _read(name, path)
                except FileNotFoundError:
                    continue
                if all(looked - changed > _SETTLED_NS for changed, _size, _inode in signature[1]):
                    self._added[name] = signature
                self._present.add(name)


@contextlib.contextmanager
def _held(record: dict[str, object] | None) -> Iterator[None]:
    """The daemon does nothing meanwhile.

    It goes on afterwards even if this process is killed: the shell sees its input end.
    """
    if record is None:
        yield
        return
    pid = int(str(record["pid"]))
    command = ["/bin/sh", "-c", f"read -r _; kill -CONT {pid}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):  # noqa: S603  a number of ours
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        yield


def _files(folder: Path, kind: str) -> Iterator[Path]:
    """All files, links and folders below, the folders before what is in them, but for what a home
    need not keep.
    """
    is_home = kind == "home"
    for at, folders, files in os.walk(folder):
        if is_home and at == os.fspath(folder):
            folders[:] = [name for name in folders if name not in _NOT_KEPT]
        for name in (*folders, *files):
            path = Path(at, name)
            is_kept = not is_home or not (name in _REBUILT or name.endswith(_BESIDE_DATABASE))
            if is_kept and (
                path.is_symlink() or path.is_dir() or path.is_file()
            ):  # no sockets, no pipes
                yield path


def _is_database(path: Path) -> bool:
    if path.suffix != ".db" or path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE


def _signature(path: Path) -> _Signature:
    found = [
        path.lstat(),
        *(beside.stat() for suffix in ("-wal",) if (beside := Path(f"{path}{suffix}")).is_file()),
    ]
    counted = () if stat.S_ISDIR(found[0].st_mode) else found
    return found[0].st_mode, tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in counted)


def _read(name: str, path: Path) -> _Member:
    """A file, folder or link with its content. Raises FileNotFoundError when it has just gone."""
    entry = tarfile.TarInfo(name)
    found = path.lstat()
    entry.mode, entry.mtime = stat.S_IMODE(found.st_mode), found.st_mtime
    if stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.fspath(path.readlink())
        return entry, None
    if stat.S_ISDIR(found.st_mode):
        entry.type = tarfile.DIRTYPE
        return entry, None
    copy = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  closed by `_add`
    if _is_database(path):
        with contextlib.suppress(sqlite3.Error):  # one that is damaged is copied as it is
            _copy_database(path, copy)
            return entry, copy
        copy.seek(0)
        copy.truncate()
    with path.open("rb") as file:
        shutil.copyfileobj(file, copy)
    return entry, copy


def _add(tar: tarfile.TarFile, entry: tarfile.TarInfo, content: IO[bytes] | None) -> None:
    if content is None:
        tar.addfile(entry)
        return
    with content:
        entry.size = content.seek(0, os.SEEK_END)
        content.seek(0)
        tar.addfile(entry, content)


def _copy_database(path: Path, copy: IO[bytes]) -> None:
    """As it is at one moment, by SQLite's own means: its newest pages may be in the file beside it.

    Raises sqlite3.Error.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "copy.db")
        with (
            closing(sqlite3.connect(f"file:{quote(os.fspath(path))}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(place)) as target,
        ):
            source.backup(target)
        with place.open("rb") as file:
            shutil.copyfileobj(file, copy)


def restore_backup(options: Namespace) -> int:
    """`parachute restore ARCHIVE`, as `parachute backup` wrote it."""
    home = Path(home_of(os.environ))
    if is_locked(os.fspath(home)):
        raise ParachuteError(f"a daemon is at work in {home}; `parachute stop`, then try again")
    listed = _read_list(Path(options.file))
    vault = Path(options.vault).expanduser().absolute() if options.vault else Path(listed["vault"])
    refuse_second(os.fspath(home), os.fspath(vault))
    archive = Path(options.file).resolve()
    if any(is_in(archive, folder.resolve()) for folder in (vault, home)):
        raise ParachuteError(
            f"{archive} is in a folder that it would replace; move it elsewhere first"
        )
    targets = {"vault": vault, "home": home}
    for folder, ignored in ((vault, frozenset[str]()), (home, _NOT_KEPT)):
        if folder.exists() and any(path.name not in ignored for path in folder.iterdir()):
            if not options.replace:
                raise ParachuteError(
                    f"{folder} is not empty, and stays as it is; --replace moves it aside first"
                )
            aside = folder.with_name(
                f"{folder.name}.before-restore-{time.strftime('%Y%m%d-%H%M%S')}"
            )
            folder.rename(aside)
            if not options.json:
                say(f"Moved {folder} to {aside}.")
    _extract(archive, listed, targets)
    if load({}).vault != vault:
        set_setting(home, "vault", os.fspath(vault))
    if options.json:
        say_json({"vault": os.fspath(vault), "home": os.fspath(home), "made": listed["made"]})
        return 0
    say(
        f"Restored {vault} and {home}, as they were at {listed['made']}. `parachute start` goes "
        "on from there."
    )
    return 0


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1_000_000 else f"{max(size // 1000, 1)} kB"  # noqa: PLR2004


def _read_list(archive: Path) -> dict[str, Any]:
    """The archive's list, having read it to its end.

    Raises ParachuteError for an incomplete backup.
    """
    listed: object = None
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for entry in tar:
                content = tar.extractfile(entry) if entry.name == _LIST else None
                listed = json.loads(content.read()) if content is not None else None
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise ParachuteError(f"{archive} is not a complete backup: {error}") from error
    if not isinstance(listed, dict) or listed.get("format") != 1:
        raise ParachuteError(f"{archive} is not a complete backup of `parachute backup`")
    return listed


def _extract(archive: Path, listed: dict[str, Any], targets: dict[str, Path]) -> None:
    """Files first, links last, so that nothing is written through a link; then the folders' modes
    and what is no longer there.
    """
    members, folders, links = (
        frozenset(listed["members"]),
        dict[Path, tarfile.TarInfo](),
        dict[Path, str](),
    )
    targets["vault"].mkdir(parents=True, exist_ok=True)
    targets["home"].mkdir(parents=True, exist_ok=True, mode=0o700)
    with tarfile.open(archive, "r|gz") as tar:
        for entry in tar:
            kind, _, name = entry.name.partition("/")
            if (
                entry.name not in members
                or kind not in targets
                or ".." in name.split("/")
                or name.startswith("/")
            ):
                continue
            path = targets[kind] / name
            if path.is_file() or path.is_symlink():
                path.unlink()  # as it was when it was added before
            if entry.isdir():
                path.mkdir(parents=True, exist_ok=True)
                folders[path] = entry
            elif entry.issym():
                links[path] = entry.linkname
            elif (content := tar.extractfile(entry)) is not None:
                links.pop(path, None)
                if folders.pop(path, None) is not None:
                    path.rmdir()
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    shutil.copyfileobj(content, file)
                path.chmod(entry.mode & 0o777)
                os.utime(path, (entry.mtime, entry.mtime))
    for path, goal in links.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(goal)
    for path, entry in sorted(folders.items(), reverse=True):
        path.chmod(entry.mode & 0o777)
