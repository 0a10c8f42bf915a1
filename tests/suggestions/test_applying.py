"""Applying: on the text that it was decided on, merged, or not at all."""

from __future__ import annotations

import pytest

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.suggestions.applying import (
    SuggestionApplier,
    SupersededError,
    acceptance_of,
    needs_no_asking,
)
from parachuted.vault import Author
from tests.suggestions.sample_suggestions import suggestion

ME = Author(by="suggestion:s0000000001", run="r-2", causes=("c-1",))


@pytest.fixture
def applier(rig) -> SuggestionApplier:
    return SuggestionApplier(rig.root, rig.store)


def test_what_was_decided_on_an_earlier_text_is_planned_on_that(rig, applier):
    digest = rig.store.bases.keep("a.md", b"one\n")
    rig.write("a.md", "one\nmore\n")
    planned = applier.plan(suggestion(path="a.md", base=digest, payload={"text": "two\n"}))
    assert (planned.before, planned.after, planned.base) == (b"one\n", b"two\n", digest)


def test_when_the_earlier_text_is_lost_nothing_is_overwritten(rig, applier):
    rig.write("a.md", "newer\n")
    with pytest.raises(NotFoundError, match="is not one of"):
        applier.plan(suggestion(path="a.md", base="0" * 64))
    with pytest.raises(SupersededError, match="the text that this was decided on is not kept"):
        applier.apply(suggestion(path="a.md", base="0" * 64), ME)
    assert rig.text("a.md") == "newer\n"


def test_what_is_done_already_is_not_done_again(rig, applier):
    digest = rig.store.bases.keep("a.md", b"# A\n")
    addition = suggestion(
        path="a.md", base=digest, payload={"section": "S", "content": "x", "append": True}
    )
    rig.write("a.md", "# A\n")
    assert applier.apply(addition, ME).changed
    assert not applier.apply(addition, ME).changed
    assert rig.text("a.md").count("x") == 1
    rig.write("b.md", "b\n")
    for done in (
        {"action": "create", "path": "b.md", "base": None, "payload": {"text": "b\n"}},
        {"action": "delete", "path": "gone.md", "payload": {}},
    ):
        assert applier.apply(suggestion(**done), ME) is None


def test_a_file_that_is_gone_is_not_made_again(rig, applier):
    with pytest.raises(SupersededError, match="the file is gone"):
        applier.apply(suggestion(path="a.md"), ME)
    assert not (rig.vault / "a.md").exists()


def test_a_file_too_large_to_be_shown_is_nothing_to_suggest_for(rig, applier):
    rig.write("a.md", "x" * (9 << 20))
    with pytest.raises(EditRefusedError, match="larger than 8 MB"):
        applier.plan(suggestion(path="a.md", base=None))


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
