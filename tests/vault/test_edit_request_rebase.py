"""Rebase: an edit decided on one text reaches what the text has become, or says that it cannot."""

from __future__ import annotations

import pytest

from parachuted.errors import ConflictError
from parachuted.vault.edit_request import rebase
from parachuted.vault.edits import (
    AppendToSection,
    DeleteKey,
    ReplaceAll,
    ReplaceSection,
    ReplaceSpans,
    SetFrontmatterKey,
    SeveralEdits,
    TextSpan,
)

BASE = b"---\nstatus: open\nowner: ada\n---\n# Note\n\n## Facts\n\nold\n\n## Ideas\n\nthought\n"

NOTE = b"# A\n\n## Facts\n- one\n\n## Other\n- x\n"


def test_a_section_left_alone_is_replaced_in_the_text_that_is_there_now():
    edit = ReplaceSection(section="Facts", content="new\n")
    for old, new in (
        (b"thought", b"deeds"),
        (b"# Note\n", b"# Note\n\nAbove it.\n"),
        (b"old", b"new"),
    ):
        current = BASE.replace(old, new)
        assert rebase(edit, BASE, current) == current.replace(b"old", b"new")


def test_a_section_that_changed_since_clashes_and_carries_all_three_texts():
    current = BASE.replace(b"old", b"mine")
    with pytest.raises(ConflictError) as caught:
        rebase(ReplaceSection(section="Facts", content="new\n"), BASE, current)
    assert (caught.value.base, caught.value.ours, caught.value.theirs) == (
        BASE,
        BASE.replace(b"old", b"new"),
        current,
    )


def test_two_changes_far_apart_in_one_section_are_merged():
    base = BASE.replace(b"old\n", b"one\n\ntwo\n\nthree\n")
    current = base.replace(b"one", b"ONE")
    edit = ReplaceSection(section="Facts", content="one\n\ntwo\n\nTHREE\n")
    assert rebase(edit, base, current) == current.replace(b"three", b"THREE")


def test_what_is_appended_goes_below_what_came_since():
    current = BASE.replace(b"old\n", b"old\nmine\n")
    new = rebase(AppendToSection(section="Facts", content="appended\n"), BASE, current)
    assert new.index(b"mine\n") < new.index(b"appended\n") < new.index(b"## Ideas")


def test_a_section_that_is_in_neither_text_is_created():
    current = BASE.replace(b"thought", b"mine")
    new = rebase(ReplaceSection(section="Plans", content="go\n", create=True), BASE, current)
    assert new.startswith(current)
    assert b"## Plans\n\ngo\n" in new


def test_a_key_left_alone_is_set_beside_one_that_changed():
    current = BASE.replace(b"owner: ada", b"owner: bob")
    assert rebase(SetFrontmatterKey(key="status", value="done"), BASE, current) == current.replace(
        b"open", b"done"
    )
    assert rebase(DeleteKey(key="status"), BASE, current) == current.replace(b"status: open\n", b"")


@pytest.mark.parametrize(
    "edit", [SetFrontmatterKey(key="status", value="done"), DeleteKey(key="status")]
)
def test_a_key_that_changed_since_clashes(edit):
    with pytest.raises(ConflictError):
        rebase(edit, BASE, BASE.replace(b"open", b"paused"))


def test_a_whole_text_is_merged_where_the_changes_are_apart():
    current = BASE.replace(b"# Note", b"# My note")
    assert rebase(
        ReplaceAll(data=BASE.replace(b"thought", b"deed")), BASE, current
    ) == current.replace(b"thought", b"deed")
    with pytest.raises(ConflictError):
        rebase(ReplaceAll(data=BASE.replace(b"# Note", b"# Our note")), BASE, current)


def test_several_edits_need_each_place_as_it_was():
    key, section = (
        SetFrontmatterKey(key="a", value=1),
        ReplaceSection(section="Facts", content="- new"),
    )
    both = SeveralEdits(edits=(key, section, AppendToSection(section="Other", content="- y")))
    elsewhere, there = NOTE.replace(b"- x", b"- z"), NOTE.replace(b"- one", b"- uno")

    assert rebase(both, NOTE, elsewhere) == (
        b"---\na: 1\n---\n# A\n\n## Facts\n- new\n\n## Other\n- z\n- y\n"
    )
    with pytest.raises(ConflictError):
        rebase(both, NOTE, there)


def test_spans_of_an_older_text_are_merged_and_not_put_at_the_same_offset():
    at = NOTE.index(b"one")
    edit = ReplaceSpans(spans=(TextSpan(start=at, stop=at + 3, text="two"),))

    assert rebase(edit, NOTE, b"above\n" + NOTE) == b"above\n" + NOTE.replace(b"one", b"two")
    with pytest.raises(ConflictError):
        rebase(edit, NOTE, NOTE.replace(b"- one", b"- ein"))
