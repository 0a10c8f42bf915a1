"""Targets: which files a suggestion may be about. Pure.

What decides over programs is nobody's to suggest: not even a person's tick makes a module's code or a hidden settings file.
"""

from __future__ import annotations

import unicodedata

from parachuted.errors import EditRefusedError, PathRefusedError
from parachuted.suggestions.paper import FOLDER
from parachuted.vault import VaultPath, printable

_PROGRAMS = frozenset({"modules", FOLDER.casefold()})
_MODULES = {"daily": "daily", "chat": "chat", "brain": "brain"}


def check_target(path: str) -> VaultPath:
    """The path, if something may be suggested for it. Raises PathRefusedError."""
    target = VaultPath.parse(path)
    names = [plain_name(name) for name in target.split("/")]
    if names[0] in _PROGRAMS or any(name.startswith(".") for name in names):
        raise PathRefusedError(f"{printable(target)} belongs to a program, so nothing is suggested for it")
    try:
        target.encode()
    except UnicodeEncodeError as error:
        raise EditRefusedError(f"the name of {printable(target)} is not UTF-8, so nothing can be suggested for it") from error
    return target


def is_suggestion_file(path: str) -> bool:
    """Whether it lies where suggestions do, which no agent, module or limited key writes."""
    return plain_name(path.partition("/")[0]) == FOLDER.casefold()


def module_of(path: str) -> str:
    """Whose notes are kept there."""
    return _MODULES.get(plain_name(path.partition("/")[0]), "vault")


def plain_name(name: str) -> str:
    """The name as a file system that is lenient about letter case and invisible characters would take it."""
    return "".join(one for one in unicodedata.normalize("NFKC", name).casefold() if unicodedata.category(one) != "Cf")
