"""Meaning: what counts as a change, and in which part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.vault.note import changed_units, meaning

NOTE = """\
---
watch:
  - "Projects/*"
status: active
tags: [a, b]
---
Hello.

# Atlas

> A map.

## Facts
- One
- Two

### Sources
- A book

## History
"""


def changed(old, new):
    return changed_units(meaning(old.encode()), meaning(new.encode()))


def test_a_note_means_its_keys_its_opening_and_its_sections():
    assert list(meaning(NOTE.encode())) == [
        "@watch",
        "@status",
        "@tags",
        "(opening text)",
        "Atlas",
        "Atlas > Facts",
        "Atlas > Facts > Sources",
        "Atlas > History",
    ]


@pytest.mark.parametrize(
    ("before", "after", "units"),
    [
        ("- Two", "- Three", ("Atlas > Facts",)),
        ("- A book", "- A film", ("Atlas > Facts > Sources",)),
        ("> A map.", "> A chart.", ("Atlas",)),
        ("Hello.", "Hello!", ("(opening text)",)),
        ("active", "done", ("@status",)),
        ("[a, b]", "[b, a]", ("@tags",)),
        ("Projects/*", "Areas/*", ("@watch",)),
        ("## History\n", "## History\n- Began\n", ("Atlas > History",)),
        ("## History\n", "", ("Atlas > History",)),
        ("## History\n", "## History\n## Next\n", ("Atlas > Next",)),
        ("### Sources", "### Roots", ("Atlas > Facts > Roots", "Atlas > Facts > Sources")),
        ("status: active\n", "", ("@status",)),
        ("status: active", "state: active", ("@state", "@status")),
    ],
)
def test_a_change_is_reported_by_the_parts_it_is_in(before, after, units):
    assert changed(NOTE, NOTE.replace(before, after)) == units


@pytest.mark.parametrize(
    "after",
    [
        "\ufeff" + NOTE,
        NOTE.replace("\n", "\r\n"),
        NOTE.replace("\n\n", "\n\n\n\n") + "\n\n",
        NOTE.replace("- One\n- Two", "- One   \n\n-  Two\t"),
        NOTE.replace("status: active\ntags: [a, b]", "tags: [a, b]\nstatus: active"),
        NOTE.replace("tags: [a, b]", "tags:\n  - a   # first\n  - 'b'"),
        NOTE.replace("active", '"active"'),
        NOTE.replace("## Facts", "##   Facts  ##"),
        NOTE.replace("# Atlas\n", "Atlas\n=====\n"),
    ],
)
def test_white_space_line_ends_key_order_and_notation_mean_nothing(after):
    assert changed(NOTE, after) == ()


@pytest.mark.parametrize(
    ("before", "after", "units"),
    [
        ("## A\none\n## B\ntwo\n", "## B\ntwo\n## A\none\n", ()),
        ("## A\nto day\n", "## A\ntoday\n", ("A",)),
        ("---\no: {n: A, m: b.c}\n---\n", "---\no:\n  m: b.c\n  n: A\n---\n", ()),
        ("---\no: {n: A, m: b.c}\n---\n", "---\no: {n: B, m: b.c}\n---\n", ("@o",)),
        ("---\na: one two\n---\n", "---\na: |\n  one\n  two\n---\n", ()),
        ("---\ns: {{x}}\nb: [\n---\n", "---\ns: {{x}}\nb: [[\n---\n", ("(frontmatter)",)),
        ("---\ns: {{x}}\nb: [\n---\n", "---\ns: x\n---\n", ("@s", "(frontmatter)")),
    ],
    ids=["order", "joined words", "keys", "a value", "wrapped", "broken", "mended"],
)
def test_what_counts_as_a_change_of_which_part(before, after, units):
    assert changed(before, after) == units


def test_of_headings_with_the_same_name_the_later_ones_are_numbered():
    note = "## Log\none\n## Log\ntwo\n## Log (2)\nthree\n"

    assert list(meaning(note.encode())) == ["Log", "Log (2)", "Log (2) (2)"]
    assert changed(note, note.replace("two", "2")) == ("Log (2)",)


def test_titles_are_not_taken_for_keys_or_for_our_own_names():
    note = "---\nstatus: a\n---\nopening\n# @status\n# (opening text)\n# #status\n#\n"

    assert list(meaning(note.encode())) == [
        "@status",
        "(opening text)",
        "#@status",
        "#(opening text)",
        "##status",
        "(untitled)",
    ]


def test_headings_in_code_are_text_and_broken_frontmatter_is_one_part():
    assert list(meaning(b"## A\n```\n## B\n```\n")) == ["A"]
    assert list(meaning(b"---\ns: {{x}}\nb: [\n---\n## A\n")) == ["(frontmatter)", "A"]


@pytest.mark.parametrize(
    "data", [b"## A\n\xff\n", b"\x80", b"## A\n" + b"x" * (17 << 20), b"# A\n" * 60_000]
)
def test_what_cannot_be_taken_apart_is_one_part(data):
    assert list(meaning(data)) == ["(whole note)"]
    assert changed_units(meaning(data), meaning(data + b"y")) == ("(whole note)",)


def test_a_note_without_a_word_means_nothing_and_a_new_one_all_of_it():
    units = meaning(b"---\na: 1\n---\n## B\n")

    assert dict(meaning(b"")) == dict(meaning(b"---\n---\n\n \n")) == {}
    assert changed_units(None, units) == changed_units(units, None) == ("@a", "B")
    assert changed_units(None, None) == ()


TEXTS = st.text(alphabet="# @->()ab:-[]`\n\t\r é", max_size=60)


@given(TEXTS, st.booleans())
def test_any_text_has_a_meaning_and_differs_not_from_itself(text, in_frontmatter):
    data = f"---\n{text}\n---\n".encode() if in_frontmatter else text.encode()

    assert changed_units(meaning(data), meaning(data)) == ()
    assert changed_units(meaning(data), meaning(data + b"\n \n")) == ()


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3), st.sampled_from(["A", "B", "A (2)"]), st.text("xyz", max_size=3)
        ),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
def test_a_new_word_in_a_section_is_a_change_of_that_section_alone(sections, data):
    def written(texts):
        return "".join(
            f"{'#' * level} {title}\n{text}\n"
            for (level, title, _), text in zip(sections, texts, strict=True)
        )

    texts = [text for _, _, text in sections]
    place = data.draw(st.integers(0, len(sections) - 1))
    new = [*texts[:place], f"{texts[place]} more", *texts[place + 1 :]]

    assert changed(written(texts), written(new)) == (list(meaning(written(texts).encode()))[place],)
