"""An office for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.suggestions.suggestion_rig import SuggestionRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SuggestionRig]:
    made = SuggestionRig(tmp_path)
    yield made
    made.close()
