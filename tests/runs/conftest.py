"""Fixtures for runs: the vault of the tools' tests."""

from tests.bubbling.reconciler_rig import closed_rigs
from tests.tools.conftest import tools_rig

__all__ = ["closed_rigs", "tools_rig"]
