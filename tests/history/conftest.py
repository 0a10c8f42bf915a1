"""The store of the vault's tests, whose writes are reverted here."""

from tests.bubbling.reconciler_rig import closed_rigs
from tests.vault.conftest import store_rig

__all__ = ["closed_rigs", "store_rig"]
