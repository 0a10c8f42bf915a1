"""Fixtures for runs: the rigs of tools and of modules, and a module that may use `Daily/`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.access.caller import Caller
from parachuted.access.grant import CallerGrant
from parachuted.keys import AccessGrant
from parachuted.keys.path_globs import PathGlob
from tests.modules.module_rig import ModuleRig
from tests.tools.conftest import tools_rig

__all__ = ["tools_rig"]


@pytest.fixture
def module_rig(tmp_path: Path) -> Iterator[ModuleRig]:
    module_rig = ModuleRig(tmp_path)
    yield module_rig
    module_rig.close()


@pytest.fixture
def daily(module_rig):
    return module_rig.bounded(read=["Daily/**"], write=["Daily/**"])


def limited(*patterns: str) -> Caller:
    grant = AccessGrant(alternatives=((tuple(map(PathGlob, patterns)),),))
    return Caller(grant=CallerGrant(reads=grant, writes=grant))
