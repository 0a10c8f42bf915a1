"""A suggestion as JSON and back."""

from __future__ import annotations

import json

import pytest

from parachuted.suggestions.suggestion import from_document, stands_for, to_document
from tests.suggestions.sample_suggestions import NOON, suggestion

RESOLVED = {
    "status": "modified",
    "resolved_by": "user",
    "resolved_at": NOON,
    "modifications": {"text": "x"},
    "applied_run": "r-2",
    "outcome": "y",
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        RESOLVED,
        {"target_id": "para:brain:a1b2c3d4e5f6", "base": None, "run": None, "causes": ()},
    ],
)
def test_it_is_the_same_after_json(more):
    made = suggestion(**more)
    assert from_document(json.loads(json.dumps(to_document(made)))) == made


@pytest.mark.parametrize(
    "change",
    [
        {"action": "destroy"},
        {"status": "x"},
        {"origin": "x"},
        {"payload": []},
        {"timestamp": "noon"},
        {"causes": "c"},
        {"modifications": 1},
    ],
)
def test_what_is_none_is_refused(change):
    with pytest.raises((ValueError, TypeError, KeyError)):
        from_document({**to_document(suggestion()), **change})
    with pytest.raises(KeyError):
        from_document({})


def test_what_counts_is_what_a_person_made_of_it_where_they_did():
    assert suggestion().effect == {"text": "two\n"}
    assert suggestion(modifications={"text": "three\n"}).effect == {"text": "three\n"}


def test_one_that_stands_for_several_names_them():
    assert stands_for(suggestion()) is None
    assert stands_for(suggestion(payload={"suggestions": ["s1", "s2"]})) == ("s1", "s2")
