"""A library: a vault and its index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.search.search_rig import SearchRig


@pytest.fixture
def shut(vault: Path, tmp_path: Path) -> Iterator[SearchRig]:
    """A library that is not open yet: notes that are there before the index is."""
    rig = SearchRig(vault, tmp_path / "search.db")
    yield rig
    rig.search.close()


@pytest.fixture
def rig(shut: SearchRig) -> SearchRig:
    shut.start()
    return shut
