"""Own folders: those outside the vault that a person declared theirs in `agent.own_folders`.

What lies in any other counts as a stranger's text.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from parachuted.errors import PathRefusedError
from parachuted.home_files.private import real_path
from parachuted.vault import VaultRoot, printable


class OwnFolders:
    """`texts` as the setting has them, from `home` or from the root."""

    def __init__(self, texts: Sequence[str], home: Path) -> None:
        self._texts = tuple(texts)
        self._folders = tuple(outside_path(text, home) for text in texts)

    def hold(self, path: Path) -> bool:
        """For a path without links, by its text: what stands there now may be another folder, or a
        link. The folders may be links.
        """
        return any(path.is_relative_to(real_path(Path(folder))) for folder in self._folders)

    def advice(self, folder: str) -> str:
        """What to do if that folder, which is not declared, is the person's."""
        if "," in folder:  # which would name others
            return "a folder with a comma in its path cannot be named in agent.own_folders"
        value = shlex.quote(printable(", ".join([*self._texts, folder])))
        return (
            f"if that folder is yours: `parachute config set agent.own_folders {value}`, then "
            "`parachute restart`"
        )


def outside_path(text: str, home: Path) -> PurePosixPath:
    """Raises PathRefusedError for what is not a path from `/` or `~/` on."""
    plain = f"{home.as_posix()}/{text[2:]}" if text.startswith("~/") else text
    names = plain.removesuffix("/").split("/")[1:]
    if not plain.startswith("/") or "\0" in plain or not {"", ".", ".."}.isdisjoint(names):
        raise PathRefusedError(
            f"{printable(text[:200])} is not a path outside the vault, such as ~/Projects/garden"
        )
    return PurePosixPath("/", *names)


def root_above(real: Path, home: Path) -> VaultRoot:
    """A root from which each part of the way to `real` is opened without following links, since one
    may be put there after `real` was checked.
    """
    root = VaultRoot(home)
    return root if real.is_relative_to(root.folder) else VaultRoot(Path("/"))
