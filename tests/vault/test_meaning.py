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
        (
            "## Facts",
            "## Truths",
            (
                "Atlas > Truths",
                "Atlas > Truths > Sources",
                "Atlas > Facts",
                "Atlas > Facts > Sources",
            ),
        ),
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


def test_the_order_of_sections_means_nothing():
    assert changed("## A\none\n## B\ntwo\n", "## B\ntwo\n## A\none\n") == ()


def test_words_that_run_together_are_a_change():
    assert changed("## A\nto day\n", "## A\ntoday\n") == ("A",)


def test_a_value_inside_a_value_counts_but_not_the_order_of_its_keys():
    note = "---\nowner: {name: Ada, mail: a@b.c}\n---\n"

    assert changed(note, "---\nowner:\n  mail: a@b.c\n  name: Ada\n---\n") == ()
    assert changed(note, note.replace("Ada", "Bob")) == ("@owner",)


def test_a_rewrapped_text_value_is_the_same():
    assert changed("---\na: one two\n---\n", "---\na: |\n  one\n  two\n---\n") == ()


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


def test_headings_in_code_are_text():
    assert list(meaning(b"## A\n```\n## B\n```\n")) == ["A"]


def test_frontmatter_that_is_not_yaml_is_one_part():
    broken = "---\nstatus: {{x}}\nb: [\n---\n## A\n"

    assert list(meaning(broken.encode())) == ["(frontmatter)", "A"]
    assert changed(broken, broken.replace("b: [", "b: [[")) == ("(frontmatter)",)
    assert changed(broken, "---\nstatus: x\n---\n## A\n") == ("@status", "(frontmatter)")


@pytest.mark.parametrize(
    "data", [b"## A\n\xff\n", b"\x80", b"## A\n" + b"x" * (17 << 20), b"# A\n" * 60_000]
)
def test_what_cannot_be_taken_apart_is_one_part(data):
    assert list(meaning(data)) == ["(whole note)"]
    assert changed_units(meaning(data), meaning(data + b"y")) == ("(whole note)",)


def test_a_note_without_a_word_means_nothing():
    assert dict(meaning(b"")) == {}
    assert dict(meaning(b"---\n---\n\n \n")) == {}


def test_all_of_a_new_or_a_deleted_note_has_changed():
    units = meaning(b"---\na: 1\n---\n## B\n")

    assert changed_units(None, units) == ("@a", "B")
    assert changed_units(units, None) == ("@a", "B")
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
