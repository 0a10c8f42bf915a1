"""Vault state: which folder of the home holds what is derived from a vault, by an id in the vault.

So a vault that was moved or restored keeps its history. Anyone who writes in the vault can change
the id: where id, path and folder do not agree, a person is asked. Cheap to import, as `presence`
is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import secrets
import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
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
_HASH_CHARACTERS = 16


class VaultUnclearError(DaemonError):
    """Only a person can say which vault this is; the message asks, and names the commands that
    answer.
    """


@dataclass(frozen=True, slots=True)
class _Record:
    """`folder` is its state; `mark` tells the vault from another at the same path ("": unknown)."""

    folder: Path
    id: str
    path: str
    mark: str


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
    try:
        record = _recognize(home, real_path(vault))
    except (VaultUnclearError, OSError):
        return None
    return record.folder if record.folder.is_dir() else None


def same_vault(vault: Path) -> Callable[[int], bool]:
    """Whether a folder, by its descriptor, holds the id that the vault has now."""
    identity = _read_id(vault)

    def is_same(folder: int) -> bool:
        return bool(identity) and _read_id(folder) == identity

    return is_same


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
    place = real_path(vault)
    return _legacy(home, place).is_dir() or any(
        record.path == os.fspath(place) for record in _records(home)
    )


def separate(home: Path, vault: Path) -> None:
    """An unclear vault is one of its own. Raises ParachuteError where nothing is unclear."""
    place = _unclear(home, vault)
    legacy, records = _legacy(home, place), _records(home)
    if legacy.is_dir() and all(record.folder != legacy for record in records):
        _write_record(_Record(legacy, secrets.token_hex(16), "", ""))
    mark = _mark(place)
    own = next(
        (
            record
            for record in records
            if mark and (record.path, record.mark) == (os.fspath(place), mark)
        ),
        None,
    )
    _keep(home, place, own or _new(home, secrets.token_hex(16)), is_new_id=True)


def adopt(home: Path, vault: Path) -> None:
    """An unclear vault is the one that the home remembers. Raises as `separate`."""
    place = _unclear(home, vault)
    identity, records = _read_id(place), _records(home)
    known = next((record for record in records if record.id == identity), None)
    known = known or next((record for record in records if record.path == os.fspath(place)), None)
    known = known or _Record(_legacy(home, place), secrets.token_hex(16), "", "")
    _keep(home, place, known, is_new_id=known.id != identity)


def _recognize(home: Path, place: Path) -> _Record:
    """What the home knows of the vault; an empty path if it is new. Raises VaultUnclearError."""
    records, identity, mark = _records(home), _read_id(place), _mark(place)
    known = next((record for record in records if record.id == identity), None)
    here = next((record for record in records if record.path == os.fspath(place)), None)
    is_same_folder = here is not None and mark != "" and here.mark == mark
    if known is not None:
        is_another = is_same_folder and here != known  # so somebody has given it that id
        if known.path not in {"", os.fspath(place)} and (
            is_another or _is_copy(Path(known.path), place, known.id)
        ):
            raise _unclear_copy(place, known.path)
        return known
    if here is not None and is_same_folder:
        return replace(
            here, id=identity or here.id
        )  # its id was deleted, or replaced by a sync with another device
    if identity == "":
        raise VaultUnclearError(
            f"{place / CONTROL_FOLDER / ID_FILE} holds no id of a vault; if it has conflict "
            "markers, leave one of the two ids in its "
            f"first line, or let `parachute vault separate {shlex.quote(os.fspath(place))}` write "
            "a new one"
        )
    legacy = _legacy(home, place)
    is_known_by_path = legacy.is_dir() and all(record.folder != legacy for record in records)
    if identity is None and (here is not None or (is_known_by_path and not any(place.iterdir()))):
        raise _unclear_place(place)
    if is_known_by_path:
        return _Record(legacy, identity or secrets.token_hex(16), "", "")
    return _new(home, identity or secrets.token_hex(16))


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
    raise ParachuteError(
        f"nothing is unclear about {place}, so there is nothing to decide; `parachute start` uses "
        "it"
    )


def _unclear_copy(place: Path, original: str) -> VaultUnclearError:
    name = shlex.quote(os.fspath(place))
    return VaultUnclearError(
        f"{place} has the id of the vault {original}. Is it a copy? `parachute vault separate "
        f"{name}` makes it a vault with a "
        f"history of its own; `parachute vault adopt {name}` lets it take over the history of "
        f"{original}"
    )


def _unclear_place(place: Path) -> VaultUnclearError:
    name = shlex.quote(os.fspath(place))
    return VaultUnclearError(
        f"{place} is another folder than the vault that was there, and has no id. If its disk is "
        "not mounted, mount it. If this is the "
        f"same vault, restored, `parachute vault adopt {name}` gives it its history back; "
        f"`parachute vault separate {name}` begins "
        "a new one"
    )


def _is_copy(original: Path, place: Path, identity: str) -> bool:
    try:
        return _read_id(original) == identity and not original.samefile(place)
    except OSError:
        return False


def _new(home: Path, identity: str) -> _Record:
    return _Record(home / "state" / identity, identity, "", "")


def _legacy(home: Path, place: Path) -> Path:
    return home / "state" / hashlib.sha256(os.fsencode(place)).hexdigest()[:_HASH_CHARACTERS]


def _mark(place: Path) -> str:
    """What tells the folder from another at its path; root folders of two disks look alike."""
    if not place.is_dir() or place.is_mount():
        return ""
    at = place.stat()
    return f"{at.st_dev}:{at.st_ino}"


def _records(home: Path) -> list[_Record]:
    found = []
    for file in (home / "state").glob(f"*/{_RECORD}"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            document = json.loads(file.read_bytes())
            found.append(
                _Record(
                    file.parent, str(document["id"]), str(document["path"]), str(document["mark"])
                )
            )
    return found


def _write_record(record: _Record) -> None:
    document = {name: value for name, value in asdict(record).items() if name != "folder"}
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
    descriptor = (
        os.open(CONTROL_FOLDER, _FOLDER, dir_fd=vault)
        if isinstance(vault, int)
        else os.open(vault / CONTROL_FOLDER, _FOLDER)
    )
    try:
        yield descriptor
    finally:
        os.close(descriptor)
