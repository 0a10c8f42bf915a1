"""An office for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.suggestions.office import Office


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """Suggestions over an empty vault."""
    made = Office(tmp_path)
    yield made
    made.close()
