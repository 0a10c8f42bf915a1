"""Vault state: which folder of the home holds what is derived from a vault, by an id in the vault.

So a vault that was moved or restored keeps its history. Anyone who writes in the vault can change
the id: where id, path and folder do not agree, a person is asked. Cheap to import, as `presence`
is.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import secrets
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parachuted.errors import DaemonError, ParachuteError
from parachuted.home_files.private import real_path, replace_private

log = logging.getLogger(__name__)

CONTROL_FOLDER = ".parachute"
ID_FILE = "vault-id"
_RECORD = "vault.json"
_ID = re.compile(r"[0-9a-f]{32}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ID_BYTES = 4096
_ID_NOTE = (
    "# parachuted finds this vault's history by the line above. Keep this file with the "
    "vault, also in git and in backups.\n"
)
_GIT_IGNORE = (
    "# The audit grows with every action; git would take lines out of it at each "
    "checkout and stash.\n/audit/\n*.tmp\n"
)


class VaultUnclearError(DaemonError):
    """Only a person can say which vault this is; the message asks, and names the commands that
    answer.
    """

    def __init__(self, place: Path, says: str, other: str) -> None:
        name = shlex.quote(os.fspath(place))
        super().__init__(
            f"{place} {says}; `parachute vault separate {name}` makes it a vault with a history of "
            f"its own; `parachute vault adopt {name}` gives it the history of {other}"
        )


@dataclass(frozen=True, slots=True)
class _Record:
    """`folder` is its state; `mark` tells the vault from another at the same path ("": unknown)."""

    folder: Path
    id: str
    path: str = ""
    mark: str = ""


def state_folder(home: Path, vault: Path) -> Path:
    """The vault's state folder, made at the first call; the vault's id is written where it is
    missing. Raises VaultUnclearError when the vault may be a copy or another, and DaemonError when
    the disk refuses.
    """
    place = real_path(vault)
    try:
        return _keep(home, place, _recognize(home, place))
    except OSError as error:
        raise DaemonError(
            f"{error.filename or home} cannot be used: {error.strerror}; make room or give "
            "yourself the right there"
        ) from error


def known_state_folder(home: Path, vault: Path) -> Path | None:
    """The same, read only; None where it is unknown or unclear."""
    with contextlib.suppress(VaultUnclearError, OSError):
        folder = _recognize(home, real_path(vault)).folder
        return folder if folder.is_dir() else None
    return None


def same_vault(vault: Path) -> Callable[[int], bool]:
    """Whether a folder, by its descriptor, holds the id that the vault has now."""
    identity = _read_id(vault)
    return lambda folder: bool(identity) and _read_id(folder) == identity


def refuse_unfit(home: Path, vault: Path) -> None:
    """Raise the DaemonError with which a start on that folder would end; nothing is written."""
    if not vault.is_dir():
        raise DaemonError(no_vault(vault))
    if not os.access(vault, os.R_OK | os.W_OK | os.X_OK):
        raise DaemonError(f"you may not write in {vault}; give yourself the right there")
    _recognize(home, real_path(vault))


def no_vault(vault: Path) -> str:
    name = shlex.quote(os.fspath(vault))
    return (
        f"there is no vault at {vault}. If its disk is not mounted, mount it; if it was moved, "
        "`parachute vault set` takes its new path; "
        f"`parachute init {name}` makes a new one"
    )


def was_vault(home: Path, vault: Path) -> bool:
    return _find(_records(home), path=real_path(vault)) is not None


def separate(home: Path, vault: Path) -> None:
    """An unclear vault is one of its own. Raises ParachuteError where nothing is unclear."""
    place = _unclear(home, vault)
    here, mark = _find(_records(home), path=place), _mark(place)
    own = here if here is not None and mark and here.mark == mark else _new(home)
    _keep(home, place, own, is_new_id=True)


def adopt(home: Path, vault: Path) -> None:
    """An unclear vault is the one that the home remembers. Raises as `separate`."""
    place = _unclear(home, vault)
    identity, records = _read_id(place), _records(home)
    known = _find(records, identity) or _find(records, path=place) or _new(home)
    _keep(home, place, known, is_new_id=known.id != identity)


def _recognize(home: Path, place: Path) -> _Record:
    """What the home knows of the vault; an empty path if it is new. Raises VaultUnclearError."""
    records, identity, mark = _records(home), _read_id(place), _mark(place)
    known, here = _find(records, identity), _find(records, path=place)
    is_same_folder = here is not None and mark != "" and here.mark == mark
    if known is not None:
        was_given = is_same_folder and here != known  # that id, which is another's
        is_elsewhere = known.path not in {"", os.fspath(place)}
        if is_elsewhere and (was_given or _is_copy(Path(known.path), place, known.id)):
            says = f"has the id of the vault {known.path}. Is it a copy? Then decide"
            raise VaultUnclearError(place, says, known.path)
        return known
    if here is not None and is_same_folder:  # its id was deleted, or replaced by a sync
        return replace(here, id=identity or here.id)
    if identity == "":
        says = (
            f"holds no id of a vault in {CONTROL_FOLDER}/{ID_FILE}; if that has conflict markers, "
            "leave one of the two ids in its first line"
        )
        raise VaultUnclearError(place, says, "the vault that was there")
    if identity is None and here is not None:
        says = (
            "is another folder than the vault that was there, and has no id. If its disk is not "
            "mounted, mount it. It may be the same vault, restored, or a new one"
        )
        raise VaultUnclearError(place, says, "the vault that was there")
    return _new(home, identity)


def _keep(home: Path, place: Path, record: _Record, *, is_new_id: bool = False) -> Path:
    """Make the home's record name the vault's place, and the vault hold the record's id."""
    record.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    now = replace(record, path=os.fspath(place), mark=_mark(place))
    if now not in (known := _records(home)):
        for other in known:
            if other.path == now.path and other.folder != now.folder:
                _write_record(replace(other, path="", mark=""))
        _write_record(now)
    try:
        _fill_control_folder(place, now.id, is_new_id=is_new_id)
    except OSError as error:
        if is_new_id:
            raise ParachuteError(
                f"the id of {place} cannot be written: {error.strerror}; give yourself the right "
                "to, then say it again"
            ) from error
        log.warning(
            "the vault's id cannot be written, so its history is found by its path alone",
            extra={"reason": str(error)},
        )
    return record.folder


def _unclear(home: Path, vault: Path) -> Path:
    place = real_path(vault)
    if not place.is_dir():
        raise ParachuteError(f"there is no folder {place}")
    try:
        _recognize(home, place)
    except VaultUnclearError:
        return place
    raise ParachuteError(f"nothing is unclear about {place}; `parachute start` uses it")


def _find(
    records: Sequence[_Record], identity: str | None = None, path: Path | None = None
) -> _Record | None:
    named = None if path is None else os.fspath(path)
    return next((one for one in records if named == one.path or identity == one.id), None)


def _is_copy(original: Path, place: Path, identity: str) -> bool:
    try:
        return _read_id(original) == identity and not original.samefile(place)
    except OSError:
        return False


def _new(home: Path, identity: str | None = None) -> _Record:
    identity = identity or secrets.token_hex(16)
    return _Record(home / "state" / identity, identity)


def _mark(place: Path) -> str:
    """What tells the folder from another at its path; root folders of two disks look alike."""
    if not place.is_dir() or place.is_mount():
        return ""
    at = place.stat()
    return f"{at.st_dev}:{at.st_ino}"


def _records(home: Path) -> list[_Record]:
    records = []
    for file in (home / "state").glob(f"*/{_RECORD}"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            document = json.loads(file.read_bytes())
            records.append(
                _Record(file.parent, *(str(document[name]) for name in ("id", "path", "mark")))
            )
    return records


def _write_record(record: _Record) -> None:
    document = {"id": record.id, "path": record.path, "mark": record.mark}
    replace_private(record.folder / _RECORD, json.dumps(document, indent=1).encode() + b"\n")


def _read_id(vault: Path | int) -> str | None:
    """The id of the vault at a path or descriptor; None: it has none, "": the file holds no id."""
    try:
        with (
            _control_folder(vault) as folder,
            open(os.open(ID_FILE, _READ, dir_fd=folder), "rb", buffering=0) as file,  # noqa: PTH123  by descriptor
        ):
            data = file.read(_ID_BYTES) or b""  # None: of a pipe that holds nothing yet
            line = data.decode("ascii", "replace").partition("\n")[0].strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return ""
    return line if _ID.fullmatch(line) else ""


def _fill_control_folder(vault: Path, identity: str, *, is_new_id: bool) -> None:
    """Write what is missing. OSError, also when a link stands in the way."""
    with contextlib.suppress(FileExistsError):
        (vault / CONTROL_FOLDER).mkdir()
    with _control_folder(vault) as folder:
        if is_new_id or _read_id(vault) is None:
            _write_file(folder, f"{ID_FILE}.tmp", f"{identity}\n{_ID_NOTE}")
            os.replace(f"{ID_FILE}.tmp", ID_FILE, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        with contextlib.suppress(FileExistsError):
            _write_file(folder, ".gitignore", _GIT_IGNORE)


def _write_file(folder: int, name: str, text: str) -> None:
    if name.endswith(".tmp"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
    descriptor = os.open(name, _CREATE, 0o644, dir_fd=folder)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _control_folder(vault: Path | int) -> Iterator[int]:
    place, beside = (
        (CONTROL_FOLDER, vault) if isinstance(vault, int) else (vault / CONTROL_FOLDER, None)
    )
    descriptor = os.open(place, _FOLDER, dir_fd=beside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
