"""Fixtures for bubbling."""

from tests.bubbling.reconciler_rig import closed_rigs

__all__ = ["closed_rigs"]
