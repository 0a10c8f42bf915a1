"""A library: a vault and its index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.search.library import Library


@pytest.fixture
def shut(vault: Path, tmp_path: Path) -> Iterator[Library]:
    """A library that is not open yet: notes that are there before the index is."""
    library = Library(vault, tmp_path / "search.db")
    yield library
    library.search.close()


@pytest.fixture
def library(shut: Library) -> Library:
    """An open library."""
    shut.start()
    return shut
