"""The store of the vault's tests, whose writes are reverted here."""

from tests.vault.conftest import store_rig

__all__ = ["store_rig"]
