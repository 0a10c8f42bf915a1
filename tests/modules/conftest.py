"""Fixtures for modules: a vault with its one writer, in which a file of tests saves its notes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.modules.module_rig import ModuleRig


@pytest.fixture
def module_rig(tmp_path: Path) -> Iterator[ModuleRig]:
    (tmp_path / "yard").mkdir()
    found = ModuleRig(tmp_path / "yard")
    yield found
    found.close()
