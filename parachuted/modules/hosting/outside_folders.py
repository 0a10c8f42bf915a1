"""Outside folders: a person's folders outside the vault that a module's manifest names, to read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from parachuted.access.caller import Caller
from parachuted.access.own_folders import OwnFolders, outside_path
from parachuted.access.paths import is_hidden
from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError, PathRefusedError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.vault import VaultPath, VaultRoot, named_errors, printable

log = logging.getLogger(__name__)

_LARGEST = 4 << 20
_MOST_ADVISED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideAccess:
    """What holds for all modules: `~/` is `user_home`, `own` are the folders that a person said are
    theirs, and nothing of `excluded` is read, wherever it lies.
    """

    user_home: Path
    excluded: tuple[Path, ...] = ()
    own: OwnFolders


class OutsideFolders:
    """`FolderAccess` of one module. What is read there counts as a stranger's text, unless it lies
    in a folder of the person's own.
    """

    def __init__(
        self,
        module: str,
        folders: Sequence[str],
        access: OutsideAccess,
        caller: Callable[[], Caller],
    ) -> None:
        self._module, self._home, self._caller = module, access.user_home, caller
        self._folders = tuple(outside_path(folder, access.user_home) for folder in folders)
        self._own = access.own
        self._advised = set[str]()
        self._excluded = tuple(path.resolve() for path in access.excluded)

    async def read(self, path: str) -> str:
        return await run_uninterrupted(self._read, path)

    def _read(self, path: str) -> str:
        root, place = self._found(path)
        with _named_errors(path), root.straight():
            if root.size(place) > _LARGEST:
                raise EditRefusedError(f"{printable(path)} is larger than {_LARGEST >> 20} MB")
            data = root.read(place).data
        self._record(path)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise EditRefusedError(f"{printable(path)} is not UTF-8 text") from error

    def _record(self, path: str) -> None:
        if self._own.hold(outside_path(path, self._home)):
            return
        source, folder = f"the file {printable(path)}", path.rpartition("/")[0]
        advice = self._own.advice(folder)
        if folder not in self._advised and len(self._advised) < _MOST_ADVISED:
            self._advised.add(folder)
            log.warning(
                "%s counts as a stranger's text, so what follows is suggested; %s", source, advice
            )
        self._caller().taint.read(f"{source} ({advice})")

    def _found(self, path: str) -> tuple[VaultRoot, VaultPath]:
        """The named folder that it lies in, and where; checked for the present caller."""
        if self._caller().checked().grant.is_limited:
            raise ActRefusedError(
                "a caller that is limited to some paths of the vault reaches no folder outside it"
            )
        meant = outside_path(path, self._home)
        folder = next((allowed for allowed in self._folders if meant.is_relative_to(allowed)), None)
        if folder is None:
            raise ActRefusedError(
                f"the module {self._module} may not read {printable(path)}: permissions.folders "
                "does not name it"
            )
        below = meant.relative_to(folder).as_posix()
        place = VaultPath("") if below == "." else VaultPath.parse(below)
        if place and is_hidden(place):
            raise PathRefusedError(
                f"{printable(path)} is hidden: nothing that begins with a dot is read"
            )
        root, excluded = VaultRoot(Path(folder)), self._excluded_ids()
        if not root.folder.is_dir():
            raise NotFoundError(f"{printable(path)} is not there")
        real = root.folder / place
        if not excluded.isdisjoint(filter(None, map(_identity_at, (real, *real.parents)))):
            raise ActRefusedError(
                f"{printable(path)} lies in the vault, or where settings and keys are"
            )
        return root, place

    def _excluded_ids(self) -> frozenset[tuple[int, int]]:
        return frozenset(filter(None, map(_identity_at, self._excluded)))


def _identity_at(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _named_errors(path: str) -> Iterator[None]:
    try:
        with named_errors(path):
            yield
    except NotFoundError:
        raise NotFoundError(f"{printable(path)} is not there") from None
    except PathRefusedError:
        raise PathRefusedError(
            f"{printable(path)} is a link, or no regular file; links are not followed"
        ) from None
