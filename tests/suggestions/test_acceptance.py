"""How often a person agreed, and what follows from it."""

from __future__ import annotations

import pytest

from parachuted.suggestions.applying import acceptance_of, needs_no_asking
from tests.suggestions.sample_suggestions import suggestion


def decided(status: str, number: int, **more: object):
    return [suggestion(status=status, resolved_by="user", **more) for _ in range(number)]


def test_it_counts_what_a_person_decided_by_agent_and_action():
    found = acceptance_of(
        [
            *decided("approved", 3),
            *decided("modified", 1),
            *decided("rejected", 1),
            *decided("superseded", 5),
            suggestion(),
            *decided("rejected", 2, action="delete"),
            suggestion(status="approved", resolved_by="auto"),
            suggestion(status="approved", resolved_by="orchestrator:chief"),
        ]
    )
    assert [(one.action, one.resolved, one.rate) for one in found] == [
        ("delete", 2, 0.0),
        ("update", 5, 0.7),
    ]


@pytest.mark.parametrize(
    ("approved", "rejected", "rate", "more", "spared"),
    [
        (20, 0, 0.95, {}, True),
        (19, 0, 0.95, {}, False),
        (19, 1, 0.95, {}, True),
        (18, 2, 0.95, {}, False),
        (20, 0, 0.0, {}, False),
        (20, 0, 0.95, {"origin": "web"}, False),
        (20, 0, 0.95, {"source_agent": "another"}, False),
        (20, 0, 0.95, {"action": "delete"}, False),
        (20, 0, 0.95, {"action": "create"}, False),
    ],
)
def test_only_enough_of_the_same_agent_and_action_spares_the_question(
    approved, rejected, rate, more, spared
):
    known = acceptance_of([*decided("approved", approved), *decided("rejected", rejected)])
    assert needs_no_asking(suggestion(**more), b"one", b"two", known, rate) is spared


def test_what_is_watched_is_always_asked():
    known = acceptance_of(decided("approved", 30))
    assert not needs_no_asking(
        suggestion(), b"# A\n", b"---\nwatch: [Daily/**]\n---\n# A\n", known, 0.5
    )
