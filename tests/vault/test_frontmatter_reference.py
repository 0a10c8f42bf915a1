"""Frontmatter beside python-frontmatter, which most tools read notes with: what it reads we read
the same, and what it writes too.
"""

from __future__ import annotations

import frontmatter
import pytest
import yaml
from frontmatter.default_handlers import YAMLHandler
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from parachuted.vault.compose import compose_note
from parachuted.vault.note import parse_note
from tests.vault.yaml_lines import YAML_LINES, LoaderOfTexts

LINES = (
    *YAML_LINES,
    "b: x # c",
    "  2]",
    "]",
    'f: "q"',
    "# c",
    "  # in",
    "j: |+",
    "n: &al v",
    "n: &al {k: 1, x: 2}",
    "  <<: *al",
    "<<: *al",
    "<<: [*al, {z: 3}]",
    "<<: x",
    "'<<': {k: 1}",
    '"<<": *al',
    "*al : 2",
    "k: &al [1, 2]",
    "oo: !t [1]",
    "p: !!int '5'",
    "title: Foo: bar",
    "u: 'open",
    "  e'",
    "\t tab",
    "  \ttab",
    "h: |2",
    "h: >+1",
    "  ---",
    "--- x",
    "---x",
    "%YAML 1.1",
    "x: \u2028y",
    "x: \x85y",
    'q: "\\u00e9\\',
    '  z"',
    "-",
    "b: null",
    "~: 1",
    "z: =",
    "1: 2",
    "? [a]",
    "k: !!binary aGk=",
    "s: !!set {a, b}",
    "e: {x: y,",
    " z: [}]",
    " , q}",
    "- k: v",
    "a: # x",
    "- - x",
    "a:\t1",
    "a: b\t# c",
    "a: |\t",
    "a: | # c",
    "  \xa0x",
    "a:\xa0b",
    "&x a: 1",
    "!!map a: 1",
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    TEXTS,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(TEXTS, some, max_size=3),
    max_leaves=8,
)


class Texts(YAMLHandler):
    """python-frontmatter's own handler, with every scalar but the merge key left a text."""

    def load(self, fm, **_options):
        return super().load(fm, Loader=LoaderOfTexts)


def read(data):
    note = parse_note(data)
    return dict(note.values), data[note.body.start : note.body.stop].decode().replace(
        "\r\n", "\n"
    ).strip()


@settings(max_examples=5 * settings.default.max_examples)
@given(
    st.lists(st.sampled_from(LINES), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "..."]),
)
def test_what_python_frontmatter_reads_we_read_the_same(lines, eol, end):
    block = "".join(line + eol for line in [*lines, *filter(None, [end])])
    data = f"---{eol}{block}---{eol}# T{eol}---{eol}text{eol}".encode()
    try:
        post = frontmatter.loads(data.decode(), handler=Texts())
    except (yaml.YAMLError, TypeError):
        return

    assert read(data) == (post.metadata, post.content)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), TEXTS)
def test_what_python_frontmatter_writes_we_read_as_it_was_meant(metadata, content):
    post = frontmatter.Post(content)
    post.metadata = metadata
    written = frontmatter.dumps(post)
    assume(
        frontmatter.loads(written).metadata == metadata
    )  # it strips its own block, and with it a last value's no-break space
    found, body = read(written.encode())

    assert found == metadata
    assert body == content.replace("\r\n", "\n").strip()


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), TEXTS)
def test_a_note_that_we_compose_is_read_as_it_was_meant_by_both(metadata, content):
    written = compose_note(metadata, content)

    assert frontmatter.loads(written).metadata == metadata
    assert read(written.encode()) == (metadata, content.replace("\r\n", "\n").strip())


@pytest.mark.parametrize(
    ("text", "theirs", "ours"),
    [
        # a rule at the top, below an empty line or of four dashes, is no frontmatter
        ("\n---\na: 1\n---\nx", {"a": "1"}, {}),
        ("----\na: 1\n----\nx", {"a": "1"}, {}),
        # a closing `...` ends the block, as in YAML and Pandoc
        ("---\na: 1\n...\nb: 2\n---\nx", None, {"a": "1"}),
    ],
)
def test_where_we_differ_it_is_on_purpose(text, theirs, ours):
    try:
        found = frontmatter.loads(text, handler=Texts()).metadata
    except yaml.YAMLError:
        found = None

    assert (found, read(text.encode())[0]) == (theirs, ours)
