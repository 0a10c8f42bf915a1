"""Private text: what an agent is not shown, and cannot lose."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.access.private_text import (
    LEFT_OUT,
    added_to_whole,
    private_parts,
    refuse_losing_private,
    without_private,
)
from parachuted.errors import ActRefusedError
from parachuted.vault import (
    AppendToSection,
    ReplaceAll,
    ReplaceSection,
    ReplaceSpans,
    SetFrontmatterKey,
    TextSpan,
    apply_edit,
    parse_note,
)

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
        "- item of many words, so that it is seen #private\n",
        "- #private\n",
        "  - nested\n",
        "> quoted #private/x\n",
        "- tags: x\n",
        "\n",
        "#private\n",
        "secret\n",
        "#privateer\n",
        "\r\n",
        "---\n",
        "private: true\n",
        "## (private part 1: left out)\n",
    ]
)
TEXTS = st.lists(PIECES, max_size=14).map(lambda pieces: "".join(pieces).encode())


def test_lines_that_are_added_are_added_to_the_whole_text():
    for new in (b"%b- watered\n", b"---\na: b\n---\n%b"):
        added = added_to_whole(ReplaceAll(data=new % SHOWN), NOTE)
        assert apply_edit(added, NOTE) == new % NOTE
    twice = SHOWN + b"\n## (private part 1: left out)\n"
    for data in (SHOWN, twice, SHOWN.replace(b"beans", b"peas"), b"# All new\n"):
        assert added_to_whole(ReplaceAll(data=data), NOTE) == ReplaceAll(data=data)


def test_a_section_is_left_out_with_all_below_its_heading():
    assert without_private(NOTE) == SHOWN
    assert LEFT_OUT.search(SHOWN.decode())


@pytest.mark.parametrize(
    "head",
    [
        b"private: true",
        b"private: yes # mine",
        b'"private": "true"',
        b"a: [\nprivate: true",
        b"Private: YES",
        b"private: [me]",
        b"private:\n  - me",
        b"private:\r\n- me",
        b"private: !!bool true",
        b"private: only Kim",
    ],
)
def test_a_whole_note_is_left_out(head: bytes):
    for text in (b"---\n" + head + b"\n---\nsecret\n", b"---\n" + head + b"\nsecret\n"):
        assert without_private(text) == b"(private part 1: left out)\n"


@pytest.mark.parametrize(
    "front",
    [
        b"tags: [health, private]",
        b"tags: private/health",
        b"tags:\n  - '#Private'",
        b"tag: health, private",
        b"tags: #private",
        b"{private: yes}",
        b"tags:\n  - [private, x]",
        b"tags:\n  - - private",
        b"tags: private; x",
    ],
)
def test_the_tag_in_the_frontmatter_leaves_out_the_whole_note(front: bytes):
    assert without_private(b"---\n" + front + b"\n---\nsecret\n") == (
        b"(private part 1: left out)\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "# A\n- secret\n- #private\n## B\nb\n# C\nc\n",
            "# (private part 1: left out)\n# C\nc\n",
        ),
        (
            "# A\na\n## B\n> secret\n> #private/x\n## C\nc\n",
            "# A\na\n## (private part 1: left out)\n## C\nc\n",
        ),
        (
            "# A\na\n## B\n#private #x\n\nsecret\n# C\nc\n",
            "# A\na\n## (private part 1: left out)\n# C\nc\n",
        ),
        ("a\n\n#private\n\nsecret\n# secret\n", "(private part 1: left out)\n"),
        ("- secret\ntags: #x #private\n- b\n", "(private part 1: left out)\n"),
        ("# A\r\n- secret\r\n#private\r\n# B\r\n", "# (private part 1: left out)\r\n# B\r\n"),
    ],
)
def test_a_line_of_tags_leaves_out_the_section_around_it(text: str, shown: str):
    assert without_private(text.encode()).decode() == shown


@pytest.mark.parametrize(
    "text",
    [
        b"---\nprivate: false\n---\nopen\n",
        b"---\nprivate: no # yet\n---\nopen\n",
        b"---\nprivate:\ntype: person\n---\nopen\n",
        b"---\ntags: [privateer]\n---\nopen\n",
        b"# Private\n\nopen\n",
        b"A private word, and `#private` as code\n",
        b"# Tags\n\nThe tag #private hides a section; so does #private/health.\n",
        b"# Tags\n\n- see the doctor #private\n> quoted #private\n#private, they say\n",
        b"| #private | hidden |\n|---|---|\n",
        b"```js\nclass A { #private = 1 }\n```\n",
        b"See [there](#private) and a.html#private\n",
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
        "# Day\u00a0#private\n\nsecret\n".encode(),
        "# Day \u201c#private\u201d\n\nsecret\n".encode(),
        b"> ## Health #private\n> secret\n",
        b"- a\n- ## Health #private\n  secret\n",
        b"- Health #private\n    more\nsecret\n===\n",
        b"> Health #private\n> more\n> ---\n> secret\n",
        b"1.  Health #private\n    ===\n    secret\n",
        b"- [x] #private\n\nsecret\n",
        b"<p>#private</p>&nbsp;\n\nsecret\n",
        b"tags: #private, work\n\nsecret\n",
        b"```\n#private\n```\n\nsecret\n",
        b"---\rprivate: true\r---\rsecret\r",
    ],
)
def test_where_readers_may_disagree_more_is_left_out(text: bytes):
    assert b"secret" not in without_private(text)


@pytest.mark.parametrize(
    "line",
    [
        "#private #Ärzte",
        "#private, #a.b",
        "**#private**",
        "\u00a0#private\u00a0",
        "\u200b#private",
        "#private\x0c",
    ],
)
@pytest.mark.parametrize(
    "above", ["", "# A\n\n## B\n", "A\n===\n", "open\n\n---\n", "<!-- x -->\n", "# A\nopen\n"]
)
def test_a_line_of_tags_alone_is_one_however_the_tags_are_written(line: str, above: str):
    assert "secret" not in without_private(f"{above}{line}\n\nsecret\n".encode()).decode()


def test_a_long_line_of_tags_is_read_once():
    text = b"# A\n" + b"word #private " * 200_000 + b"\n"

    assert without_private(text) is text


@pytest.mark.parametrize(
    ("edit", "is_refused"),
    [
        (AppendToSection(section="Log", content="- watered"), False),
        (ReplaceSection(section="Log", content="- watered"), False),
        (SetFrontmatterKey(key="a", value="b"), False),
        (ReplaceAll(data=SHOWN.replace(b"beans", b"peas")), True),
        (ReplaceSection(section="Health #private", content="gone"), True),
        (ReplaceSection(section="Monday", content="gone"), True),
        (AppendToSection(section="Health #private", content="more"), True),
        (ReplaceSpans(spans=(TextSpan(start=10, stop=15, text="peas"),)), True),
    ],
)
def test_an_agents_edit_that_would_change_it_is_refused(edit, is_refused):
    with pytest.raises(ActRefusedError, match="private part") if is_refused else nullcontext():
        refuse_losing_private(edit, NOTE, apply_edit(edit, NOTE))


@given(TEXTS)
def test_nothing_private_is_shown(text: bytes):
    shown = without_private(text)
    places = private_parts(parse_note(text))
    parts = [text[part.start : part.stop] for part in places]
    starts, stops = [0, *(part.stop for part in places)], [*(part.start for part in places), None]
    public = [text[start:stop] for start, stop in zip(starts, stops, strict=True)]

    for words in {part.strip() for part in parts if len(part.strip()) > 30}:
        assert words not in shown or any(words in one for one in public)  # the same words as code
