"""Writable: what of the vault is a program's, and so is not written as notes are."""

from __future__ import annotations

from aiohttp import web

from parachuted.access.paths import is_approval, is_code
from parachuted.errors import EditRefusedError
from parachuted.keys import Identity
from parachuted.vault import VaultPath, printable


def is_program(path: str) -> bool:
    """Whether it lies where code or approvals are kept, which nothing writes as notes are
    written.
    """
    return is_code(path) or is_approval(path)


def refuse_programs(path: VaultPath) -> None:
    """Raises EditRefusedError when a program, or what decides on one, would be changed."""
    if is_code(path):
        raise EditRefusedError(
            f"{printable(path)} belongs to a module, which is not written from here"
        )
    if is_approval(path):
        raise EditRefusedError(
            f"{printable(path)} is a suggestion's, which is not written from here; POST "
            "/api/suggestions decides on it"
        )


def refuse_programs_but_to_admins(path: VaultPath, identity: Identity) -> None:
    """The same, but for those who may change anything of the vault: 403 for others."""
    if is_program(path):
        grant = identity.grant("vault", "admin")
        if grant is None or grant.alternatives is not None:
            raise web.HTTPForbidden(
                text=f"{printable(path)} is a program's or a suggestion's; only an admin of the "
                "whole vault may write it"
            )
