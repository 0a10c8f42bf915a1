"""Bundled folders: what the package carries besides code, in a checkout beside it, else inside."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from parachuted.errors import NotFoundError, ParachuteError

BundledFolder = Literal["hooks", "modules", "vault-template", "systemd", "launchd"]
_PACKAGE = Path(__file__).resolve().parents[1]


def bundled_folder(name: BundledFolder, package: Path = _PACKAGE) -> Path:
    """Where the shipped folder is; raises NotFoundError when the installation lacks it."""
    inside = package / "bundle"
    folder = (inside if inside.is_dir() else package.parent) / name
    if not folder.is_dir():
        raise NotFoundError(f"This installation lacks its folder {name}: install parachuted again.")
    return folder


def make_vault(vault: Path) -> str:
    """Make a vault from the template, unless something is there. Raises ParachuteError."""
    if vault.is_dir() and any(vault.iterdir()):
        return f"{vault} is there already, and is left as it is."
    try:
        shutil.copytree(
            bundled_folder("vault-template"),
            vault,
            copy_function=shutil.copyfile,
            dirs_exist_ok=True,
        )
    except OSError as error:
        reason = error.strerror or error
        raise ParachuteError(f"the vault {vault} cannot be made: {reason}") from error
    return f"Made {vault}, with a few notes to begin with."
