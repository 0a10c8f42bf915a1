"""Backup: the vault and the home in one archive, and an archive brought back.

The daemon is held still while its records are copied, which belong together; kept texts, which
never change, come before, and notes after: what a restored daemon does not know of a note, it finds
as any change of a time off. The last member says that the archive is whole.
"""

from __future__ import annotations

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
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from parachuted import __version__
from parachuted.cli.client import current_settings, current_vault, found_daemon
from parachuted.cli.commands import Steps, verb
from parachuted.cli.show import count, say
from parachuted.config import set_setting
from parachuted.errors import ParachuteError
from parachuted.home_files.private import as_private, is_in
from parachuted.processes.presence import home_of, is_locked, refuse_second

_LIST = "backup.json"
_NOT_KEPT = frozenset({"run", "logs"})  # of the home: a living daemon's sockets, and what it said
_DATABASE = b"SQLite format 3\0"
_BESIDE_DATABASE = ("-wal", "-shm", "-journal")
_SECRETS, _MODULE_DATA = "secrets.json", "module-data"  # where a module keeps tokens
_TEXTS = "objects"
_REBUILT = frozenset({"search.db"})
_PLACES = ("vault", "home", "made")
_IN_MEMORY = 16 << 20
_READINGS = 5
_BROKEN = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)


@verb("backup", "the vault and the home in one file")
def backup(options: Namespace) -> Steps:
    """Write the vault, the settings, the keys and the history into one archive, while the
    daemon works; `restore` brings it back.

    file?  where (default: parachute-DATE-TIME.tar.gz in this folder)
    --with-secrets  with the tokens of modules, such as bots
    """
    home, vault = Path(home_of(os.environ)), Path(current_vault())
    if not vault.is_dir():
        raise ParachuteError(f"no vault at {vault}")
    usual = f"parachute-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
    target = Path(options.file or usual).expanduser().absolute()
    for folder in (vault, home):
        if is_in(target.resolve(), folder.resolve()):
            where = f"{target} is in {folder}, which it is to hold"
            raise ParachuteError(f"{where}; name a file elsewhere")
    if target.exists():
        raise ParachuteError(f"{target} is there already, and stays as it is")
    if not target.parent.is_dir():
        raise ParachuteError(f"there is no folder {target.parent}; no backup was written")
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "xb", opener=as_private) as file:
            folders = {"home": home, "vault": vault}
            members = _write(file, folders, with_secrets=options.with_secrets)
            os.fsync(file.fileno())
        partial.rename(target)
    except OSError as error:
        reason = f"{error.filename or target}: {error.strerror}"
        raise ParachuteError(f"{reason}; no backup was written") from error
    finally:
        partial.unlink(missing_ok=True)
    size, places = target.stat().st_size, {"vault": os.fspath(vault), "home": os.fspath(home)}
    yield {"file": os.fspath(target), "bytes": size, **places}
    files = f"{count(members, 'file')} and folders of {vault} and {home}"
    say(f"Wrote {target}: {files}, {_size(size)}.")
    say("It holds your keys and logins: keep it as you keep those.")


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1_000_000 else f"{max(size // 1000, 1)} kB"  # noqa: PLR2004


def _write(file: IO[bytes], folders: dict[str, Path], *, with_secrets: bool) -> int:
    """How many members it has."""
    members = set[str]()
    with (
        gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6) as zipped,
        tarfile.open(fileobj=zipped, mode="w|") as tar,
    ):
        for kind, path in _ordered(folders, with_secrets=with_secrets):
            name = f"{kind}/{os.path.relpath(path, folders[kind])}"
            if name not in members:
                with suppress(FileNotFoundError):  # removed meanwhile
                    _add(tar, name, path)
                    members.add(name)
        made = {
            "format": 1,
            "version": __version__,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **{kind: os.fspath(folder) for kind, folder in folders.items()},
        }
        content = json.dumps(made).encode()
        entry = tarfile.TarInfo(_LIST)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return len(members)


def _ordered(folders: dict[str, Path], *, with_secrets: bool) -> Iterator[tuple[str, Path]]:
    home, vault = folders["home"], folders["vault"]
    for path in _files(home, is_home=True, with_secrets=with_secrets):
        if _TEXTS in path.relative_to(home).parts:
            yield "home", path
    with _stopped(found_daemon()):
        for path in _files(home, is_home=True, with_secrets=with_secrets):
            yield "home", path
        for path in _files(vault / ".parachute", is_home=False):
            yield "vault", path
    for _ in range(2):  # the second time what was moved meanwhile to where the first had been
        for path in _files(vault, is_home=False):
            yield "vault", path


def _files(folder: Path, *, is_home: bool, with_secrets: bool = False) -> Iterator[Path]:
    for at, folders, files in os.walk(folder, onerror=_refuse_unreadable):
        if is_home and at == os.fspath(folder):
            folders[:] = [name for name in folders if name not in _NOT_KEPT]
        for name in (*folders, *files):
            path = Path(at, name)
            is_secret = name == _SECRETS and _MODULE_DATA in path.parts
            is_left = name in _REBUILT or name.endswith(_BESIDE_DATABASE)
            if is_home and (is_left or (is_secret and not with_secrets)):
                continue
            if path.is_symlink() or path.is_dir() or path.is_file():  # no sockets, no pipes
                yield path


@contextmanager
def _stopped(record: dict[str, object] | None) -> Iterator[None]:
    """The daemon is held still, and goes on even if we are killed: the shell's input ends."""
    if record is None:
        yield
        return
    pid = int(str(record["pid"]))
    command = ["/bin/sh", "-c", f"read -r _; kill -CONT {pid}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):  # noqa: S603  a number of ours
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        yield


def _refuse_unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # removed meanwhile
        raise error


def _is_database(path: Path) -> bool:
    if path.suffix != ".db" or path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE


def _add(tar: tarfile.TarFile, name: str, path: Path) -> None:
    """Raises FileNotFoundError when it has just gone."""
    entry, status = tarfile.TarInfo(name), path.lstat()
    entry.mode, entry.mtime = stat.S_IMODE(status.st_mode), status.st_mtime
    if stat.S_ISLNK(status.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.fspath(path.readlink())
        tar.addfile(entry)
        return
    if stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
        tar.addfile(entry)
        return
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as copy:  # its size is known beforehand
        entry.mtime = _copy(path, copy).st_mtime
        entry.size = copy.tell()
        copy.seek(0)
        tar.addfile(entry, copy)


def _copy(path: Path, copy: IO[bytes]) -> os.stat_result:
    """The file, read again where it was saved meanwhile, and what it was found to be."""
    for _ in range(_READINGS):
        status = path.stat()
        copy.seek(0)
        copy.truncate()
        if not (_is_database(path) and _copy_database(path, copy)):
            with path.open("rb") as file:
                shutil.copyfileobj(file, copy)
        now = path.stat()
        if (now.st_mtime_ns, now.st_size) == (status.st_mtime_ns, status.st_size):
            break
    return status


def _copy_database(path: Path, copy: IO[bytes]) -> bool:
    """As it is at one moment: its newest pages may be in the file beside it. False where it is
    damaged.
    """
    with tempfile.TemporaryDirectory() as folder:
        place, address = Path(folder, "copy.db"), f"file:{quote(os.fspath(path))}?mode=ro"
        try:
            with (
                closing(sqlite3.connect(address, uri=True)) as source,
                closing(sqlite3.connect(place)) as target,
            ):
                source.backup(target)
        except sqlite3.Error:
            return False
        with place.open("rb") as file:
            shutil.copyfileobj(file, copy)
    return True


def restore_backup(options: Namespace) -> Steps:
    """For `restore`: as its options say."""
    home, archive = Path(home_of(os.environ)), Path(options.file).resolve()
    if is_locked(os.fspath(home)):
        raise ParachuteError(f"a daemon is at work in {home}; `parachute stop`, then try again")
    listed = _read_list(archive)
    vault = Path(options.vault).expanduser().absolute() if options.vault else Path(listed["vault"])
    refuse_second(os.fspath(home), os.fspath(vault))
    if any(is_in(archive, folder.resolve()) for folder in (vault, home)):
        raise ParachuteError(f"{archive} is in a folder that it would replace; move it first")
    targets = {"vault": vault, "home": home}
    occupied = [kind for kind, folder in targets.items() if any(_contents(kind, folder))]
    if occupied and not options.replace:
        stays = f"{targets[occupied[0]]} is not empty, and stays as it is"
        raise ParachuteError(f"{stays}; --replace moves it aside first")
    _replace(archive, targets, occupied, is_silent=options.json)
    if current_settings().vault != vault:
        set_setting(home, "vault", os.fspath(vault))
    places = {kind: os.fspath(folder) for kind, folder in targets.items()}
    yield {**places, "made": listed["made"]}
    say(f"Restored {vault} and {home}, as they were at {listed['made']}.")
    say("`parachute start` goes on from there.")


def _replace(
    archive: Path, targets: dict[str, Path], occupied: list[str], *, is_silent: bool
) -> None:
    """Move aside what is there, and extract. Where that fails, all is as it was before."""
    emptied, at = dict[str, Path | None](), time.strftime("%Y%m%d-%H%M%S")
    try:
        for kind, folder in targets.items():
            aside = folder.with_name(f"{folder.name}.before-restore-{at}")
            emptied[kind] = folder.rename(aside) if kind in occupied else None
            if kind in occupied and not is_silent:
                say(f"Moved {folder} to {aside}.")
        _extract(archive, targets)
    except BaseException as error:
        for kind, moved in emptied.items():
            _put_back(kind, targets[kind], moved)
        if not isinstance(error, OSError):
            raise
        reason = f"{error.filename or f'restoring {archive}'}: {error.strerror}"
        left = "nothing was restored, and what was there is in its place"
        raise ParachuteError(f"{reason}; {left}") from error


def _contents(kind: str, folder: Path) -> Iterator[Path]:
    ignored = _NOT_KEPT if kind == "home" else frozenset[str]()
    if folder.exists():
        yield from (path for path in folder.iterdir() if path.name not in ignored)


def _put_back(kind: str, folder: Path, aside: Path | None) -> None:
    for path in list(_contents(kind, folder)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    with suppress(OSError):  # one that is mounted stays
        folder.rmdir()
    if aside is not None:
        aside.rename(folder)


def _read_list(archive: Path) -> dict[str, Any]:
    """What the archive says of itself. ParachuteError: it is incomplete, or leads out of its
    folders.
    """
    listed: Any = None
    types: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for entry in tar:
                if entry.name == _LIST and (content := tar.extractfile(entry)) is not None:
                    listed = json.loads(content.read())
                else:
                    _check_member(entry, types)
                    types[entry.name] = entry.type
        is_ours = listed["format"] == 1 and all(isinstance(listed[name], str) for name in _PLACES)
    except (*_BROKEN, ValueError, LookupError, TypeError) as error:
        raise ParachuteError(f"{archive} is not a complete backup: {error}") from error
    if not is_ours:
        raise ParachuteError(f"{archive} is not a complete backup: its list is another program's")
    return dict(listed)


def _check_member(entry: tarfile.TarInfo, types: dict[str, bytes]) -> None:
    """Raise ValueError unless it is a file, folder or link of ours, reached through no link."""
    kind, *parts = entry.name.split("/")
    above = [f"{kind}/{'/'.join(parts[:depth])}" for depth in range(1, len(parts))]
    if (
        kind not in {"vault", "home"}
        or not parts
        or not {"", ".", ".."}.isdisjoint(parts)
        or entry.name in types
        or not (entry.isdir() or entry.isreg() or entry.issym())
        or not all(types.get(folder, tarfile.DIRTYPE) == tarfile.DIRTYPE for folder in above)
    ):
        raise ValueError(f"{entry.name} cannot be restored safely")


def _extract(archive: Path, targets: dict[str, Path]) -> None:
    """Files first, then links, so that nothing is written through one; then the folders' modes."""
    folders, links = dict[Path, int](), dict[Path, str]()
    targets["vault"].mkdir(parents=True, exist_ok=True)
    targets["home"].mkdir(parents=True, exist_ok=True, mode=0o700)
    with tarfile.open(archive, "r|gz") as tar:
        for entry in tar:
            if entry.name == _LIST:
                continue
            kind, _, name = entry.name.partition("/")
            path = targets[kind] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(entry) if entry.isreg() else None
            if content is not None:
                with open(path, "wb", opener=as_private) as file:
                    shutil.copyfileobj(content, file)
                path.chmod(entry.mode & 0o777)
                os.utime(path, (entry.mtime, entry.mtime))
            elif entry.isdir():
                path.mkdir(exist_ok=True)
                folders[path] = entry.mode
            else:
                links[path] = entry.linkname
    for path, goal in links.items():
        path.symlink_to(goal)
    for path, mode in sorted(folders.items(), reverse=True):
        path.chmod(mode & 0o777)
