"""Fixtures for runs: the vault of the tools' tests."""

from tests.tools.conftest import tools_rig

__all__ = ["tools_rig"]
