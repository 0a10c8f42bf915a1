"""Applying: on the text that it was decided on, merged, or not at all."""

from __future__ import annotations

import pytest

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.suggestions.applying import SuggestionApplier
from parachuted.vault import Author
from tests.suggestions.sample_suggestions import suggestion

ME = Author(by="suggestion:s0000000001", run="r-2", causes=("c-1",))


@pytest.fixture
def applier(suggestion_rig) -> SuggestionApplier:
    return SuggestionApplier(suggestion_rig.root, suggestion_rig.store)


def test_a_text_that_is_not_kept_cannot_be_what_it_was_decided_on(suggestion_rig, applier):
    suggestion_rig.write("a.md", "one\n")
    with pytest.raises(NotFoundError, match="is not one of"):
        applier.plan(suggestion(path="a.md", base="0" * 64))


def test_what_was_decided_on_an_earlier_text_is_planned_on_that(suggestion_rig, applier):
    digest = suggestion_rig.store.bases.keep("a.md", b"one\n")
    suggestion_rig.write("a.md", "one\nmore\n")
    planned = applier.plan(suggestion(path="a.md", base=digest, payload={"text": "two\n"}))
    assert (planned.before, planned.after, planned.base) == (b"one\n", b"two\n", digest)


def test_when_the_earlier_text_is_lost_nothing_is_written_over_what_stands_there(
    suggestion_rig, applier
):
    suggestion_rig.write("a.md", "newer\n")
    applied = applier.apply(suggestion(path="a.md", base="0" * 64), ME)
    assert (applied.written, applied.why) == (
        None,
        "the file was changed since, and the text that this was decided on is not kept",
    )
    assert suggestion_rig.text("a.md") == "newer\n"


def test_what_is_done_already_is_not_done_again(suggestion_rig, applier):
    digest = suggestion_rig.store.bases.keep("a.md", b"# A\n")
    addition = suggestion(
        path="a.md", base=digest, payload={"section": "S", "content": "x", "append": True}
    )
    suggestion_rig.write("a.md", "# A\n")
    assert applier.apply(addition, ME).written.changed
    assert not applier.apply(addition, ME).written.changed
    assert suggestion_rig.text("a.md").count("x") == 1
    suggestion_rig.write("b.md", "b\n")
    assert (
        applier.apply(
            suggestion(action="create", path="b.md", base=None, payload={"text": "b\n"}), ME
        ).why
        is None
    )
    assert applier.apply(suggestion(action="delete", path="gone.md", payload={}), ME).why is None


def test_a_file_that_is_gone_is_not_made_again(suggestion_rig, applier):
    applied = applier.apply(suggestion(path="a.md"), ME)
    assert (applied.why, (suggestion_rig.vault / "a.md").exists()) == ("the file is gone", False)


def test_a_file_too_large_to_be_shown_is_nothing_to_suggest_for(suggestion_rig, applier):
    suggestion_rig.write("a.md", "x" * (9 << 20))
    with pytest.raises(EditRefusedError, match="larger than 8 MB"):
        applier.plan(suggestion(path="a.md", base=None))
