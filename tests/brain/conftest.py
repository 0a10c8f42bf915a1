"""Brain as most of its tests begin with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from parachuted.testing import ModuleHarness
from tests.brain.brain_of import a_vault, brain


@pytest.fixture
async def empty_brain(tmp_path: Path) -> AsyncIterator[ModuleHarness]:
    async with brain(tmp_path) as module:
        yield module


@pytest.fixture
async def small_brain(tmp_path: Path) -> AsyncIterator[ModuleHarness]:
    """In a vault with Kim Lee, Acme and Zoë Müller."""
    async with brain(a_vault(tmp_path)) as module:
        yield module
