"""Applying: on the text that it was decided on, merged, or not at all."""

from __future__ import annotations

import pytest

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.suggestions.applying import SuggestionApplier, SupersededError
from parachuted.vault import Author
from tests.suggestions.sample_suggestions import suggestion

ME = Author(by="suggestion:s0000000001", run="r-2", causes=("c-1",))


@pytest.fixture
def applier(rig) -> SuggestionApplier:
    return SuggestionApplier(rig.store, rig.suggestions.store)


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
        applier.write(suggestion(path="a.md", base="0" * 64), ME)
    assert rig.text("a.md") == "newer\n"


def test_what_is_done_already_is_not_done_again(rig, applier):
    digest = rig.store.bases.keep("a.md", b"# A\n")
    addition = suggestion(
        path="a.md", base=digest, payload={"section": "S", "content": "x", "append": True}
    )
    rig.write("a.md", "# A\n")
    assert applier.write(addition, ME).changed
    assert not applier.write(addition, ME).changed
    assert rig.text("a.md").count("x") == 1
    rig.write("b.md", "b\n")
    for done in (
        {"action": "create", "path": "b.md", "base": None, "payload": {"text": "b\n"}},
        {"action": "delete", "path": "gone.md", "payload": {}},
    ):
        assert applier.write(suggestion(**done), ME) is None


def test_a_file_that_is_gone_is_not_made_again(rig, applier):
    with pytest.raises(SupersededError, match="the file is gone"):
        applier.write(suggestion(path="a.md"), ME)
    assert not (rig.vault / "a.md").exists()


def test_a_file_too_large_to_be_shown_is_nothing_to_suggest_for(rig, applier):
    rig.write("a.md", "x" * (9 << 20))
    with pytest.raises(EditRefusedError, match="larger than 8 MB"):
        applier.plan(suggestion(path="a.md", base=None))
