"""Writable: what of the vault is a program's, and so is not written as notes are."""

from __future__ import annotations

import unicodedata

from aiohttp import web

from parachuted.errors import EditRefusedError
from parachuted.keys import Identity
from parachuted.vault import VaultPath, printable

_PROGRAMS = "modules"
_SUGGESTIONS = "suggestions"


def is_program(path: VaultPath) -> bool:
    """Whether it lies in the folder of modules, whose code would be trusted if it could be changed as a note is."""
    return _plain(path.split("/", 1)[0]) == _PROGRAMS


def is_suggestion(path: VaultPath) -> bool:
    """Whether it lies in the folder of suggestions, where a box that is ticked has things done elsewhere in the vault."""
    return _plain(path.split("/", 1)[0]) == _SUGGESTIONS


def refuse_programs(path: VaultPath) -> None:
    """Raises EditRefusedError when a program, or what decides on one, would be changed."""
    if is_program(path):
        raise EditRefusedError(f"{printable(path)} belongs to a module, which is not written from here")
    if is_suggestion(path):
        raise EditRefusedError(f"{printable(path)} is a suggestion's, which is not written from here; POST /api/suggestions decides on it")


def refuse_programs_but_to_admins(path: VaultPath, identity: Identity) -> None:
    """The same, but for those who may change anything of the vault: 403 for others."""
    if is_program(path) and identity.grant("vault", "admin") is None:
        raise web.HTTPForbidden(text=f"{printable(path)} belongs to a module; only an admin may write it")
    grant = identity.grant("vault", "admin")
    if is_suggestion(path) and (grant is None or grant.alternatives is not None):
        raise web.HTTPForbidden(text=f"{printable(path)} is a suggestion's; only an admin of the whole vault may write it")


def _plain(name: str) -> str:
    """The name as a file system that is lenient about letter case and invisible characters would take it."""
    return "".join(one for one in unicodedata.normalize("NFKC", name).casefold() if unicodedata.category(one) != "Cf")
