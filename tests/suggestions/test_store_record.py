"""A record as the state keeps it."""

from __future__ import annotations

import json

import pytest

from parachuted.suggestions.store import record_from, record_of
from parachuted.suggestions.suggestion import SuggestionPreview
from tests.suggestions.sample_suggestions import suggestion


def test_it_is_the_same_after_json():
    made = record_of(
        suggestion(),
        "Suggestions/x.md",
        SuggestionPreview(diff="+x", text="x", words="no", after=(("a", "b"),)),
    )
    assert record_from(json.loads(json.dumps(made.to_json()))) == made


def test_what_is_none_is_refused():
    made = record_of(suggestion(), "Suggestions/x.md", SuggestionPreview(diff="+x")).to_json()
    for change in ({"document": None}, {"after": "x"}, {"document": {}}):
        with pytest.raises((ValueError, KeyError, TypeError)):
            record_from({**made, **change})
