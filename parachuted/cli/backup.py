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
from parachuted.cli.client import current_settings, current_vault, home_of
from parachuted.cli.commands import JSON, argument, command
from parachuted.cli.show import count, say, say_json
from parachuted.config import set_setting
from parachuted.errors import ParachuteError
from parachuted.home_files.private import is_in
from parachuted.processes.presence import is_locked, refuse_second, running_daemon

_LIST = "backup.json"
_NOT_KEPT = frozenset(
    {"run", "logs"}
)  # of the home: sockets and locks of a daemon that lives, and what it said
_DATABASE = b"SQLite format 3\0"
_BESIDE_DATABASE = ("-wal", "-shm", "-journal")
_SECRETS, _MODULE_DATA = "secrets.json", "module-data"  # where a module keeps tokens
_REBUILT = frozenset({"search.db"})
_KINDS = frozenset({"vault", "home"})
_LISTED = {"vault": str, "home": str, "made": str, "members": list}
_PASSES = 2
_IN_MEMORY = 16 << 20
# a file that changed less than this ago may change once more within the same tick of its time stamp
_SETTLED_NS = 100_000_000
_Signature: TypeAlias = tuple[int, tuple[tuple[int, int, int], ...]]
_Member: TypeAlias = tuple[tarfile.TarInfo, IO[bytes] | None]


@command(
    "backup",
    "the vault and the home in one file",
    argument("file", nargs="?", help="where (default: parachute-DATE-TIME.tar.gz in this folder)"),
    argument(
        "--with-secrets", action="store_true", help="with the tokens of modules, such as bots"
    ),
    JSON,
)
def backup(options: Namespace) -> int:
    """Write the vault, the settings, the keys and the history into one archive, while the
    daemon works; `restore` brings it back.
    """
    home = Path(home_of(os.environ))
    record, vault = running_daemon(os.fspath(home)), Path(current_vault())
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
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "xb", opener=_private) as file:
            made = _Archive(file, vault, home, with_secrets=options.with_secrets).make(record)
            os.fsync(file.fileno())
        partial.rename(target)
    except OSError as error:
        raise ParachuteError(
            f"{error.filename or target}: {error.strerror}; no backup was written"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    if options.json:
        return say_json(
            {
                "file": os.fspath(target),
                "bytes": target.stat().st_size,
                **{name: made[name] for name in ("vault", "home")},
            }
        )
    say(
        f"Wrote {target}: {count(len(made['members']), 'file')} and folders of {vault} and "
        f"{home}, {_size(target.stat().st_size)}."
    )
    say("It holds your keys and logins: keep it as you keep those.")
    return 0


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _Archive:
    def __init__(self, file: IO[bytes], vault: Path, home: Path, *, with_secrets: bool) -> None:
        self._with_secrets = with_secrets
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
                _files(folder, kind, with_secrets=self._with_secrets),
                key=lambda path: not _is_database(path),
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


def _files(folder: Path, kind: str, *, with_secrets: bool) -> Iterator[Path]:
    """All files, links and folders below, the folders before what is in them, but for what a home
    need not keep, and for the tokens of modules.
    """
    is_home = kind == "home"
    for at, folders, files in os.walk(folder, onerror=_refuse_unreadable):
        if is_home and at == os.fspath(folder):
            folders[:] = [name for name in folders if name not in _NOT_KEPT]
        for name in (*folders, *files):
            path = Path(at, name)
            is_kept = not is_home or not (name in _REBUILT or name.endswith(_BESIDE_DATABASE))
            if is_home and name == _SECRETS and _MODULE_DATA in path.parts and not with_secrets:
                continue
            if is_kept and (
                path.is_symlink() or path.is_dir() or path.is_file()
            ):  # no sockets, no pipes
                yield path


def _refuse_unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # removed meanwhile
        raise error


def _is_database(path: Path) -> bool:
    if path.suffix != ".db" or path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE


def _signature(path: Path) -> _Signature:
    found = [path.lstat()]
    if path.suffix == ".db" and (beside := Path(f"{path}-wal")).is_file():
        found.append(beside.stat())
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
    listed, last = _read_list(Path(options.file))
    vault = Path(options.vault).expanduser().absolute() if options.vault else Path(listed["vault"])
    refuse_second(os.fspath(home), os.fspath(vault))
    archive = Path(options.file).resolve()
    if any(is_in(archive, folder.resolve()) for folder in (vault, home)):
        raise ParachuteError(
            f"{archive} is in a folder that it would replace; move it elsewhere first"
        )
    targets = {"vault": vault, "home": home}
    occupied = [kind for kind, folder in targets.items() if any(_contents(kind, folder))]
    if occupied and not options.replace:
        raise ParachuteError(
            f"{targets[occupied[0]]} is not empty, and stays as it is; --replace moves it aside "
            "first"
        )
    _replace(archive, last, targets, occupied, is_silent=options.json)
    if current_settings().vault != vault:
        set_setting(home, "vault", os.fspath(vault))
    if options.json:
        return say_json(
            {"vault": os.fspath(vault), "home": os.fspath(home), "made": listed["made"]}
        )
    say(
        f"Restored {vault} and {home}, as they were at {listed['made']}. `parachute start` goes "
        "on from there."
    )
    return 0


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1_000_000 else f"{max(size // 1000, 1)} kB"  # noqa: PLR2004


def _replace(
    archive: Path,
    last: dict[str, int],
    targets: dict[str, Path],
    occupied: list[str],
    *,
    is_silent: bool,
) -> None:
    """Move aside what is there, and extract. Where that fails, all is as it was before.

    Raises ParachuteError.
    """
    emptied: dict[str, Path | None] = {}
    try:
        for kind, folder in targets.items():
            emptied[kind] = aside = _move_aside(folder) if kind in occupied else None
            if aside is not None and not is_silent:
                say(f"Moved {folder} to {aside}.")
        _extract(archive, last, targets)
    except BaseException as error:
        for kind, aside in emptied.items():
            _put_back(kind, targets[kind], aside)
        if not isinstance(error, OSError):
            raise
        raise ParachuteError(
            f"{error.filename or f'restoring {archive}'}: {error.strerror}; nothing was "
            "restored, and what was there is in its place"
        ) from error


def _contents(kind: str, folder: Path) -> Iterator[Path]:
    ignored = _NOT_KEPT if kind == "home" else frozenset[str]()
    if folder.exists():
        yield from (path for path in folder.iterdir() if path.name not in ignored)


def _move_aside(folder: Path) -> Path:
    aside = folder.with_name(f"{folder.name}.before-restore-{time.strftime('%Y%m%d-%H%M%S')}")
    return folder.rename(aside)


def _put_back(kind: str, folder: Path, aside: Path | None) -> None:
    """Remove what was restored so far, and move back what was moved aside."""
    for path in list(_contents(kind, folder)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    with contextlib.suppress(OSError):  # one that is mounted stays
        folder.rmdir()
    if aside is not None:
        aside.rename(folder)


def _read_list(archive: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The archive's list, and the number of the entry that counts for each member, having read all.

    Raises ParachuteError for an incomplete backup, and for one that leads out of its folders.
    """
    listed: Any = None
    last: dict[str, tuple[int, tarfile.TarInfo]] = {}
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for number, entry in enumerate(tar):
                last[entry.name] = number, entry
                content = tar.extractfile(entry) if entry.name == _LIST else None
                listed = json.loads(content.read()) if content is not None else None
        listed = _check_list(listed)
        entries = {name: last[name] for name in listed["members"]}
        for name in entries:
            _check_member(name, entries)
    except (
        tarfile.TarError,
        EOFError,
        zlib.error,
        gzip.BadGzipFile,
        ValueError,
        LookupError,
        TypeError,
    ) as error:
        raise ParachuteError(f"{archive} is not a complete backup: {error}") from error
    return listed, {name: number for name, (number, _entry) in entries.items()}


def _check_list(listed: object) -> dict[str, Any]:
    if not isinstance(listed, dict) or listed.get("format") != 1:
        raise ValueError("it is not of `parachute backup`")
    if not all(isinstance(listed.get(name), kind) for name, kind in _LISTED.items()):
        raise ValueError("its list is damaged")
    return listed


def _check_member(name: str, entries: dict[str, tuple[int, tarfile.TarInfo]]) -> None:
    """Raise ValueError unless it is a file, folder or link of the vault or the home, reached
    through no link.
    """
    kind, *parts = name.split("/")
    above = [f"{kind}/{'/'.join(parts[:depth])}" for depth in range(1, len(parts))]
    entry = entries[name][1]
    if (
        kind not in _KINDS
        or not parts
        or not {"", ".", ".."}.isdisjoint(parts)
        or not (entry.isdir() or entry.isreg() or entry.issym())
        or not all(entries[one][1].isdir() for one in above if one in entries)
    ):
        raise ValueError(f"{name} cannot be restored safely")


def _extract(archive: Path, last: dict[str, int], targets: dict[str, Path]) -> None:
    """Files first, then links, so that nothing is written through one; then the folders' modes."""
    folders, links = dict[Path, int](), dict[Path, str]()
    targets["vault"].mkdir(parents=True, exist_ok=True)
    targets["home"].mkdir(parents=True, exist_ok=True, mode=0o700)
    with tarfile.open(archive, "r|gz") as tar:
        for number, entry in enumerate(tar):
            if last.get(entry.name) != number:
                continue
            kind, _, name = entry.name.partition("/")
            path = targets[kind] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(entry) if entry.isreg() else None
            if content is not None:
                with open(path, "wb", opener=_private) as file:
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
