"""Outside folders: a person's folders outside the vault that a module's manifest names, to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from parachuted.access.caller import Caller
from parachuted.access.own_folders import OwnFolders, outside_path, root_above
from parachuted.access.paths import is_hidden
from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError, PathRefusedError
from parachuted.home_files.private import is_in, real_path
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.vault import VaultPath, printable

_LARGEST = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideAccess:
    """What holds for all modules: `~/` is `user_home`, `own` are the folders that a person said are
    theirs, and nothing of `excluded` is read, wherever it lies.
    """

    user_home: Path
    excluded: tuple[Path, ...] = ()
    own: OwnFolders


class FolderAccess:
    """A person's folders outside the vault that `permissions.folders` names, to read.

    A path begins with `/` or `~/`, as in the manifest. Links and hidden files are not there. What
    is read counts as a stranger's text, unless it lies in a folder of the person's own.
    ActRefusedError: no named folder has it, or the caller is limited to some paths of the vault.
    PathRefusedError: it is not such a path, is hidden or is a link.
    """

    def __init__(
        self,
        module: str,
        folders: Sequence[str],
        access: OutsideAccess,
        caller: Callable[[], Caller],
    ) -> None:
        self._module, self._access, self._caller = module, access, caller
        self._folders = tuple(outside_path(folder, access.user_home) for folder in folders)

    async def read(self, path: str) -> str:
        """The text of a file of at most 4 MB. NotFoundError, EditRefusedError."""
        return await run_uninterrupted(self._read, path)

    def _read(self, path: str) -> str:
        caller, shown = self._caller().checked(), printable(path)
        if caller.grant.is_limited:
            raise ActRefusedError(
                "a caller that is limited to some paths of the vault reaches no folder outside it"
            )
        meant = outside_path(path, self._access.user_home)
        folder = next((allowed for allowed in self._folders if meant.is_relative_to(allowed)), None)
        if folder is None:
            raise ActRefusedError(
                f"the module {self._module} may not read {shown}: permissions.folders does not "
                "name it"
            )
        place = VaultPath.parse(meant.relative_to(folder).as_posix())
        real = real_path(Path(folder)) / place
        if any(is_in(real, real_path(excluded)) for excluded in self._access.excluded):
            raise ActRefusedError(f"{shown} lies in the vault, or where settings and keys are")
        if is_hidden(place):
            raise PathRefusedError(f"{shown} is hidden: nothing that begins with a dot is read")
        root = root_above(real, self._access.user_home)
        opened = VaultPath(real.relative_to(root.folder))
        try:
            with root.straight():
                if root.size(opened) > _LARGEST:
                    raise EditRefusedError(f"{shown} is larger than {_LARGEST >> 20} MB")
                data = root.read(opened).data
        except NotFoundError:
            raise NotFoundError(f"{shown} is not there") from None
        if not self._access.own.hold(real):
            advice = self._access.own.advice(path.rpartition("/")[0])
            caller.taint.read(f"the file {shown} ({advice})")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise EditRefusedError(f"{shown} is not UTF-8 text") from error
