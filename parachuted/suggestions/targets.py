"""Which files a suggestion may be about. Pure.

Files that control programs may not be suggested: not even a person's tick writes a module's code or
a hidden settings file.
"""

from __future__ import annotations

from parachuted.access.paths import is_control
from parachuted.errors import EditRefusedError, PathRefusedError
from parachuted.vault import VaultPath, fold_name, printable

_MODULES = {"daily": "daily", "chat": "chat", "brain": "brain"}


def check_target(path: str) -> VaultPath:
    """The path, if something may be suggested for it. Raises PathRefusedError."""
    target = VaultPath.parse(path)
    if is_control(target):
        raise PathRefusedError(
            f"{printable(target)} belongs to a program, so nothing is suggested for it"
        )
    try:
        target.encode()
    except UnicodeEncodeError as error:
        raise EditRefusedError(
            f"the name of {printable(target)} is not UTF-8, so nothing can be suggested for it"
        ) from error
    return target


def module_of(path: str) -> str:
    """Whose notes are kept there."""
    return _MODULES.get(fold_name(path.partition("/")[0]), "vault")
