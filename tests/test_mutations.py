"""Mutations: each place that tests/mutations.py breaks is still there, and so are its tests."""

from __future__ import annotations

import pytest

from tests.mutations import MUTATIONS, ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_its_place_and_its_tests_are_there(mutation):
    text = (ROOT / mutation.file).read_text("utf-8")

    assert mutation.broken(text) != text
    assert [name for name in mutation.tests.split() if not (ROOT / name).exists()] == []
