"""Private text: what an agent is not shown, and cannot lose."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.access.private_text import (
    LEFT_OUT,
    edit_keeping_private,
    private_spans,
    without_private,
)
from parachuted.errors import ActRefusedError
from parachuted.vault import AppendToSection, ReplaceAll, ReplaceSection, apply_edit, parse_note

NOTE = b"""# Monday

beans

## Health #private

secret

### More

secret too

## Log

- sown
"""
SHOWN = NOTE.replace(
    NOTE[NOTE.index(b"## Health") : NOTE.index(b"## Log")], b"## (private part 1: left out)\n"
)
PIECES = st.sampled_from(
    [
        "# A\n",
        "# B #private\n",
        "## C #Private x\n",
        "## D\n",
        "```\n",
        "words\n",
        "E #private\n===\n",
        "secret\n",
        "#privateer\n",
        "\r\n",
        "---\n",
        "private: true\n",
        "## (private part 1: left out)\n",
    ]
)
TEXTS = st.lists(PIECES, max_size=14).map(lambda pieces: "".join(pieces).encode())


def test_a_section_is_left_out_with_all_below_its_heading():
    assert without_private(NOTE) == SHOWN
    assert LEFT_OUT.search(SHOWN.decode())


@pytest.mark.parametrize(
    "head",
    [b"private: true", b"private: yes # mine", b'"private": "true"', b"a: [\nprivate: true"],
)
def test_a_whole_note_is_left_out(head: bytes):
    for text in (b"---\n" + head + b"\n---\nsecret\n", b"---\n" + head + b"\nsecret\n"):
        assert without_private(text) == b"(private part 1: left out)\n"


@pytest.mark.parametrize(
    "text",
    [
        b"---\nprivate: false\n---\nopen\n",
        b"# Private\n\nopen\n",
        b"Words of a #private kind\n",
        b"# About #private-keys\n",
    ],
)
def test_what_is_not_marked_is_shown_as_it_is(text: bytes):
    assert without_private(text) is text


@pytest.mark.parametrize(
    "text",
    [
        b"```\nopen fence\n\n## Health #private\n\nsecret\n",
        b"## Health #private\n```\n# no heading\n```\nsecret\n",
        b"Health #private\n---\n\nsecret\n",
        b"# para:daily:abc123def456 10:30 #private\n\nsecret\n\n---\n",
    ],
)
def test_where_readers_may_disagree_more_is_left_out(text: bytes):
    assert b"secret" not in without_private(text)


def test_an_agents_text_gets_the_private_part_back():
    edit = edit_keeping_private(ReplaceAll(data=SHOWN.replace(b"beans", b"peas")), NOTE)

    assert apply_edit(edit, NOTE) == NOTE.replace(b"beans", b"peas")


def test_an_edit_of_a_section_beside_it_is_the_agents_own():
    edit = AppendToSection(section="Log", content="- watered")

    assert edit_keeping_private(edit, NOTE) == edit


@pytest.mark.parametrize(
    "edit",
    [
        ReplaceAll(data=b"# All new\n"),
        ReplaceSection(section="Health #private", content="gone"),
        ReplaceSection(section="Monday", content="gone"),
        AppendToSection(section="Health #private", content="more"),
    ],
)
def test_an_edit_that_would_change_it_is_refused(edit):
    with pytest.raises(ActRefusedError, match="private part"):
        edit_keeping_private(edit, NOTE)


@given(TEXTS)
def test_nothing_private_is_shown_and_what_was_shown_can_be_written_back(text: bytes):
    shown = without_private(text)
    parts = [text[span.start : span.stop] for _, span in private_spans(parse_note(text))]

    assert all(part.strip() not in shown for part in parts if len(part.strip()) > 30)
    try:
        after = apply_edit(edit_keeping_private(ReplaceAll(data=shown), text), text)
    except ActRefusedError:
        return
    kept = [after[span.start : span.stop] for _, span in private_spans(parse_note(after))]
    lost = Counter(part.strip() for part in parts) - Counter(part.strip() for part in kept)
    assert not lost
