"""The stores of the vault's and the tools' tests, whose writes are reverted and explained here."""

from tests.tools.conftest import tools_rig
from tests.vault.conftest import rig

__all__ = ["rig", "tools_rig"]
