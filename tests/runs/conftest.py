"""Fixtures for runs: the vault of the tools' tests, and a module that may use `Daily/`."""

import pytest

from parachuted.access.authority import Authority
from parachuted.keys import AccessGrant
from parachuted.keys.path_globs import PathGlob
from tests.tools.conftest import tools_rig

__all__ = ["tools_rig"]


@pytest.fixture
def daily(module_rig):
    return module_rig.bounded(read=["Daily/**"], write=["Daily/**"])


def limited(pattern: str) -> Authority:
    grant = AccessGrant(alternatives=(((PathGlob(pattern),),),))
    return Authority(reads=grant, writes=grant)
