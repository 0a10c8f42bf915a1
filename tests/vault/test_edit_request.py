from __future__ import annotations

import pytest

from parachuted.errors import ConflictError
from parachuted.vault import (
    AppendToSection,
    EditRequest,
    ReplaceSection,
    ReplaceSpans,
    SetFrontmatterKey,
    SeveralEdits,
    TextSpan,
)
from parachuted.vault.edit_request import rebase

NOTE = b"# A\n\n## Facts\n- one\n\n## Other\n- x\n"


def append(line: str, base: str | None = None) -> EditRequest:
    return EditRequest(edit=AppendToSection(section="Facts", content=line), base=base)


def nothing(_digest: str, _sees: object) -> None:
    return None


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
