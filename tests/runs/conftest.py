"""Fixtures for runs: the vault of the tools' tests, and a module that may use `Daily/`."""

import pytest

from parachuted.access.caller import Caller
from parachuted.access.grant import CallerGrant
from parachuted.keys import AccessGrant
from parachuted.keys.path_globs import PathGlob
from tests.tools.conftest import tools_rig

__all__ = ["tools_rig"]


@pytest.fixture
def daily(module_rig):
    return module_rig.bounded(read=["Daily/**"], write=["Daily/**"])


def limited(pattern: str) -> Caller:
    grant = AccessGrant(alternatives=(((PathGlob(pattern),),),))
    return Caller(grant=CallerGrant(reads=grant, writes=grant))
