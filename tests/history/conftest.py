"""The store of the vault's tests, whose writes are reverted here."""

from tests.vault.conftest import shelf

__all__ = ["shelf"]
