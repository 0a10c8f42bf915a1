from __future__ import annotations

import pytest

from parachuted.errors import ConflictError, NotFoundError
from parachuted.vault import (
    AppendToSection,
    EditRequest,
    ReplaceAll,
    ReplaceSection,
    ReplaceSpans,
    SetFrontmatterKey,
    SeveralEdits,
    TextSpan,
    digest_of,
)
from parachuted.vault.edit_request import decide_all, rebase
from tests.vault.conftest import StoreRig

NOTE = b"# A\n\n## Facts\n- one\n\n## Other\n- x\n"


def append(line: str, base: str | None = None) -> EditRequest:
    return EditRequest(edit=AppendToSection(section="Facts", content=line), base=base)


def nothing(_digest: str, _sees: object) -> None:
    return None


def test_each_edit_is_applied_to_what_the_one_before_left():
    decided = decide_all(
        [
            append("- two"),
            append("- three", digest_of(NOTE)),
            EditRequest(edit=SetFrontmatterKey(key="a", value=1)),
        ],
        NOTE,
        nothing,
    )

    assert (
        decided.data == b"---\na: 1\n---\n# A\n\n## Facts\n- one\n- two\n- three\n\n## Other\n- x\n"
    )
    assert decided.merged == (True, True, True)


def test_one_alone_is_merged_with_nothing():
    assert decide_all([append("- two", digest_of(NOTE))], NOTE, nothing).merged == (False,)


def test_one_that_cannot_be_applied_leaves_the_others_be():
    base = digest_of(NOTE)
    requests = [
        EditRequest(edit=ReplaceSection(section="Facts", content="- mine"), base=base),
        EditRequest(edit=ReplaceSection(section="Facts", content="- other"), base=base),
        EditRequest(edit=ReplaceSection(section="None", content="x")),
        append("- more", base),
    ]
    decided = decide_all(requests, NOTE, nothing)

    assert decided.data == b"# A\n\n## Facts\n- mine\n- more\n\n## Other\n- x\n"
    assert [type(one) for one in decided.merged] == [bool, ConflictError, NotFoundError, bool]
    assert decided.merged[1].theirs == b"# A\n\n## Facts\n- mine\n\n## Other\n- x\n"


def test_a_base_that_no_one_kept_is_a_conflict_with_the_present_text():
    requests = [
        append("- two", "0" * 64),
        EditRequest(edit=ReplaceAll(data=b"all"), base="1" * 64),
        EditRequest(edit=SetFrontmatterKey(key="a", value=1), base="2" * 64),
    ]
    decided = decide_all(requests, NOTE, nothing)

    assert decided.data == NOTE
    assert [(error.ours, error.theirs) for error in decided.merged] == [
        (b"# A\n\n## Facts\n- one\n- two\n\n## Other\n- x\n", NOTE),
        (b"all", NOTE),
        (b"---\na: 1\n---\n" + NOTE, NOTE),
    ]


def test_the_store_writes_them_once_and_answers_each(store_rig: StoreRig):
    store_rig.put("a.md", NOTE)
    answers = store_rig.store.edit_all(
        store_rig.root.resolve("a.md"),
        [append("- two"), append("- three", "0" * 64), append("- four")],
        store_rig.agent,
    )

    assert store_rig.text("a.md") == "# A\n\n## Facts\n- one\n- two\n- four\n\n## Other\n- x\n"
    assert len(store_rig.history.writes_of("a.md")) == 1
    assert isinstance(answers[1], ConflictError)
    assert {answer.after for answer in (answers[0], answers[2])} == {
        digest_of((store_rig.vault / "a.md").read_bytes())
    }


def test_what_changes_nothing_is_not_written(store_rig: StoreRig):
    store_rig.put("a.md", NOTE)
    (answer,) = store_rig.store.edit_all(
        store_rig.root.resolve("a.md"), [EditRequest(edit=ReplaceAll(data=NOTE))], store_rig.agent
    )

    assert not answer.changed
    assert store_rig.history.writes_of("a.md") == []


def test_several_edits_go_to_the_present_text_only_if_each_place_is_as_it_was():
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


def test_spans_of_an_older_text_are_merged_and_never_put_at_the_same_offset_of_the_present_one():
    at = NOTE.index(b"one")
    edit = ReplaceSpans(spans=(TextSpan(start=at, stop=at + 3, text="two"),))

    assert rebase(edit, NOTE, b"above\n" + NOTE) == b"above\n" + NOTE.replace(b"one", b"two")
    with pytest.raises(ConflictError):
        rebase(edit, NOTE, NOTE.replace(b"- one", b"- ein"))
