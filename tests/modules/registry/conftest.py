"""Fixtures for trust: a home and a vault to which a module from somewhere comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.modules.stranger import UntrustedRig


@pytest.fixture
def rig(tmp_path: Path, home: Path, vault: Path) -> UntrustedRig:
    return UntrustedRig(base=tmp_path, home=home, vault=vault)
