"""Problems: told when they come, when they change and when they go."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.events import Bus, Problems


@pytest.fixture
def reported():
    return []


@pytest.fixture
def problems(reported):
    bus = Bus(lambda: datetime.now(UTC))
    bus.subscribe(lambda event: reported.append((event.data["subject"], event.data["problem"])))
    return Problems(bus)


def test_a_problem_is_reported_once_when_it_comes_and_once_when_it_goes(problems, reported):
    for problem in ("lost", "lost", None, None):
        problems.set("vault", problem)

    assert reported == [("vault", "lost"), ("vault", None)]
    assert problems.open == {}


def test_a_problem_that_becomes_another_is_reported_again(problems, reported):
    problems.set("vault", "lost")
    problems.set("vault", "read-only")

    assert reported == [("vault", "lost"), ("vault", "read-only")]
    assert problems.open == {"vault": "read-only"}


def test_what_is_not_named_in_a_group_any_more_is_not_a_problem_any_more(problems, reported):
    problems.set("vault", "lost")
    problems.replace("file:", {"a.md": "unreadable", "b.md": "a pipe"})
    problems.replace("file:", {"b.md": "a pipe"})

    assert problems.open == {"vault": "lost", "file:b.md": "a pipe"}
    assert reported[-1] == ("file:a.md", None)
    assert len(reported) == 4


def test_problems_can_be_added_to_a_group(problems):
    problems.replace("file:", {"a.md": "unreadable"})
    problems.add("file:", {"b.md": "a pipe"}.items())

    assert set(problems.open) == {"file:a.md", "file:b.md"}


def test_what_it_hands_out_is_a_copy(problems):
    problems.open["vault"] = "lost"

    assert problems.open == {}
