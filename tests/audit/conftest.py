"""The audit of a vault, closed at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.audits import Book


@pytest.fixture
def book(vault: Path, home: Path):
    """The audit of a vault."""
    made = Book(vault=vault, home=home)
    yield made
    for log in made.logs:
        log.close()
