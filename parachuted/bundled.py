"""Bundled folders: what the package carries besides code.

In a checkout they stand beside the package, in a wheel inside it; only this file knows which.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from parachuted.errors import NotFoundError

BundledFolder = Literal["hooks", "modules", "vault-template", "systemd", "launchd"]
_PACKAGE = Path(__file__).resolve().parent


def bundled_folder(name: BundledFolder, package: Path = _PACKAGE) -> Path:
    """Where the shipped folder of that name is; raises NotFoundError when the installation lacks
    it.
    """
    inside = package / "bundle"
    folder = (inside if inside.is_dir() else package.parent) / name
    if not folder.is_dir():
        raise NotFoundError(f"This installation lacks its folder {name}: install parachuted again.")
    return folder
