"""Fixtures for runs: the vault of the tools' tests."""

from tests.tools.conftest import bench

__all__ = ["bench"]
