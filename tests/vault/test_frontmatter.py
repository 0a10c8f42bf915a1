"""Frontmatter: the block is found by its two lines, its keys are known to the byte, and rubbish is
told, never raised.
"""

from __future__ import annotations

import random
import re
import time

import pytest
import yaml

from parachuted.texts.yaml_events import MAX_BYTES
from parachuted.vault.frontmatter import (
    Span,
    declared_watch,
    find_block,
    key_source,
    keys_by_line,
    read_block,
)
from tests.vault.yaml_lines import YAML_LINES, LoaderOfTexts

LINES = (
    *YAML_LINES,
    "b: x",
    "2]",
    "]",
    'f: "open',
    'close"',
    "# comment",
    "  # indented",
    "'s': v",
    "n: &an v",
    "p: é ü",
    "- item",
    "...",
    "\t tab",
    "q: # c",
    "r: v # c",
    "v: 'multi",
    "  line'",
    "x:1",
    "aa: [x] # c",
    'bb: "a\\',
    '  b"',
    "cc: - x",
    "@at: 1",
    "ls\u2028x: 1",
    "cr\rdd: 1",
)


def matter(block):
    data = f"---\n{block}---\n".encode()
    return read_block(data, find_block(data).span)


def sources(block):
    data = f"---\n{block}---\n".encode()
    return {key.name: data[key.span.start : key.span.stop].decode() for key in matter(block).keys}


@pytest.mark.parametrize(
    ("data", "block", "body"),
    [
        (b"---\na: 1\n---\nx", b"a: 1\n", b"x"),
        (b"---\r\na: 1\r\n---\r\nx", b"a: 1\r\n", b"x"),
        (b"\xef\xbb\xbf---\na: 1\n---\nx", b"a: 1\n", b"x"),
        (b"---  \na: 1\n---\t\nx", b"a: 1\n", b"x"),
        (b"---\n---\n", b"", b""),
        (b"---\n---", b"", b""),
        (b"---\na: |\n  ---\n---\n", b"a: |\n  ---\n", b""),
        (b"---\na: 1\n----\n---\n", b"a: 1\n----\n", b""),
        (b"---\na: 1\n---x\n --- \n---\nb", b"a: 1\n---x\n --- \n", b"b"),
        (b"---\n\xff\0\n---\nb", b"\xff\0\n", b"b"),
    ],
)
def test_a_block_is_found_by_its_two_lines(data, block, body):
    found = find_block(data)

    assert (data[found.span.start : found.span.stop], data[found.stop :]) == (block, body)
    assert not found.unterminated


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"\n---\na: 1\n---\n",
        b" ---\na: 1\n---\n",
        b"----\na: 1\n---\n",
        b"--- x\n---\n",
        b"---",
        b"\xef\xbb\xbf",
    ],
)
def test_what_does_not_begin_with_the_line_has_no_block(data):
    assert find_block(data) is None


@pytest.mark.parametrize(
    "data",
    [b"---\n", b"---\na: 1\n", b"---\na: 1\n----\n", b"---\na: 1\n ---\n", b"---\na: 1\n--- x"],
)
def test_a_block_that_nothing_closes_is_reported(data):
    assert find_block(data).unterminated


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        pytest.param(
            "# top\na: 1 # c\nb:\n- x\n\n  - y\n# about d\nd: [1,\n2\n]\n\ne: |\n  t\n\n# end\n",
            {
                "a": "a: 1 # c\n",
                "b": "b:\n- x\n\n  - y\n",
                "d": "d: [1,\n2\n]\n",
                "e": "e: |\n  t\n",
            },
            id="keys have their lines and their values' lines",
        ),
        pytest.param(
            "a: \"x\n# no comment\ny: z\"\nb: 'p\n\n  q'\n",
            {"a": 'a: "x\n# no comment\ny: z"\n', "b": "b: 'p\n\n  q'\n"},
            id="a quoted text over several lines is one value",
        ),
        pytest.param(
            "a: |\n  x\n   \n\nb: 1\n",
            {"a": "a: |\n  x\n   \n", "b": "b: 1\n"},
            id="white space that a block text ends with is part of it",
        ),
        pytest.param(
            "\ufeffa: é\nb: 2\n",
            {"a": "\ufeffa: é\n", "b": "b: 2\n"},
            id="a byte order mark inside the block shifts nothing",
        ),
        pytest.param(
            "a:\n  b: 1\n  # about b\n# about c\nc: 2\n",
            {"a": "a:\n  b: 1\n  # about b\n", "c": "c: 2\n"},
            id="an indented comment belongs to the key above it",
        ),
        pytest.param(
            'title: Foo: bar\ntags:\n  - x\n- y\n\n# c\n"q\\u00e9": \'\n',
            {"title": "title: Foo: bar\n", "tags": "tags:\n  - x\n- y\n", "qé": '"q\\u00e9": \'\n'},
            id="a block that is not YAML still has keys by line",
        ),
    ],
)
def test_each_key_has_its_own_bytes(block, expected):
    assert sources(block) == expected


def test_keys_are_named_as_yaml_reads_them():
    assert list(sources("\"q: \\u00e9\": 1\n'it''s': 2\né ü: 3\n? x\n: 4\n000123: 5\n")) == [
        "q: é",
        "it's",
        "é ü",
        "x",
        "000123",
    ]


def test_the_value_of_a_key_on_one_line_has_its_own_bytes():
    data = '---\né: ü # c\nb: "q" \nc:\nd: [1]\ne: !!str 5\nf: |\n  x\n---\n'.encode()
    keys = read_block(data, find_block(data).span).keys

    assert [key.value and data[key.value.start : key.value.stop] for key in keys] == [
        "ü".encode(),
        b'"q"',
        b"",
        None,
        b"!!str 5",
        None,
    ]


def test_values_are_texts_lists_and_maps():
    block = "created: 10:30\nid: 000123\ntype: no\ntags: [a, 1]\ne:\n  d: 2\nnone:\n"
    texts = {"created": "10:30", "id": "000123", "type": "no", "none": ""}

    assert matter(block).values == texts | {"tags": ["a", "1"], "e": {"d": "2"}}
    assert matter("").readable
    assert matter("# only this\n\n").readable


def test_anchors_aliases_and_merges_are_read_as_yaml_reads_them():
    block = (
        "a: &t [x, y]\nb: *t\nc: &m {k: 1, l: 2}\nd: {<<: *m, l: 3}\ne: &s text\nf: [*s, "
        "*t]\ng:\n  <<: [{k: 4}, *m]\n"
    )

    assert matter(block).values == yaml.load(block, Loader=LoaderOfTexts)  # noqa: S506
    assert matter(block).problems == ()


def test_what_aliases_multiply_is_not_read():
    laughs = "a: &k0 [x, x]\n" + "".join(f"k{i + 1}: &k{i + 1} [*k{i}, *k{i}]\n" for i in range(20))
    texts = f"a: &a {'x' * 1000}\nb: [{'*a, ' * 100}]\n"

    assert [problem.code for problem in (*matter(laughs).problems, *matter(texts).problems)] == [
        "frontmatter-alias"
    ] * 2


def test_a_block_text_may_begin_with_a_tab():
    assert matter("h: |\n  \tx\nb: 1\n").values == {"h": "\tx\n", "b": "1"}
    assert sources("h: |\n  \tx\nb: 1\n") == {"h": "h: |\n  \tx\n", "b": "b: 1\n"}


def test_a_watch_list_may_be_an_alias():
    assert declared_watch(b"---\nrefs: &r [a.md, b/**]\nwatch: *r\n---\n") == (("a.md", "b/**"), ())


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("title: Foo: bar\n", "frontmatter-malformed"),
        ("a: [\n", "frontmatter-malformed"),
        ("\ta: 1\n", "frontmatter-malformed"),
        ("just text\n", "frontmatter-not-mapping"),
        ("- a\n- b\n", "frontmatter-not-mapping"),
        ("a: " + "[" * 100 + "\n", "frontmatter-too-deep"),
        ("a: *x\nb: &x 1\n", "frontmatter-alias"),
        ("a: " + "x" * MAX_BYTES + "\n", "frontmatter-too-large"),
        ("a: \0\n", "frontmatter-malformed"),
    ],
)
def test_a_block_that_cannot_be_read_says_why_and_has_no_values(block, code):
    found = matter(block)

    assert [problem.code for problem in found.problems] == [code]
    assert (dict(found.values), found.readable) == ({}, False)


def test_bytes_that_are_not_utf8_are_reported_and_keys_known_by_line():
    data = b"---\na: \xff\nb: 1\n---\n"
    found = read_block(data, find_block(data).span)

    assert ([problem.code for problem in found.problems], [key.name for key in found.keys]) == (
        ["frontmatter-not-utf8"],
        ["a", "b"],
    )


@pytest.mark.parametrize(
    "block",
    [
        "a: [\nstray\n",
        "- x\na: b: c\n",
        "  x: 1\na: b: c\n",
        "a b\nc: d: e\n",
        "a: b: c\nfoo # x: 1\n",
    ],
)
def test_lines_that_belong_to_no_key_make_a_broken_block_tangled(block):
    assert matter(block).tangled


@pytest.mark.parametrize("block", ["{a: 1}\n", "a: 1\rb: 2\n", "a: 1\u2028b: 2\n"])
def test_keys_that_share_a_line_are_reported(block):
    found = matter(block)

    assert found.tangled
    assert found.readable
    assert [problem.code for problem in found.problems] == ["frontmatter-tangled"]


def test_the_key_as_it_is_written_is_known():
    assert key_source(b'  "a b" : 1\n', 0) == b'  "a b" :'
    assert key_source(b"? a\n", 0) is None
    assert [key.name for key in keys_by_line(b"x: 1\n", Span(start=0, stop=99))[0]] == ["x"]


@pytest.mark.parametrize(
    ("block", "watch"),
    [
        ("watch: Projects/*\n", ("Projects/*",)),
        ('watch:\n  - "Projects/*"\n  - "../"\n', ("Projects/*", "../")),
        ("watch: [a, 'b']\n", ("a", "b")),
        ('"watch": x\n', ("x",)),
        ("watch : x\n", ("x",)),
        ("watch: ['true', \"1\", !!str 2024]\n", ("true", "1")),
        ("watch: [2026-02-24]\n", ("2026-02-24",)),
        ("watch: a\nwatch: b\n", ("b",)),
        ("watch: []\n", ()),
        ("a: 1\n", ()),
        ("a:\n  watch: x\n", ()),
        ("# watch: x\n", ()),
        ("watch: [a, 1, b, {c: d}, null]\n", ("a", "b")),
    ],
)
def test_what_is_watched_is_what_is_text(block, watch):
    assert declared_watch(f"---\n{block}---\n".encode())[0] == watch


@pytest.mark.parametrize(
    "value",
    [
        "true",
        "no",
        "1",
        "1.5",
        "0x10",
        "10:30",
        "null",
        "~",
        "",
        "''",
        "\n  - ",
        "{a: b}",
        "[[a]]",
        "[true]",
        "[{a: b}]",
        "!A/*",
    ],
)
def test_what_is_not_text_is_reported_and_ignored(value):
    watch, problems = declared_watch(f"---\nwatch: {value}\n---\n".encode())

    assert (watch, [problem.code for problem in problems]) == ((), ["watch-not-text"])


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"---\nwatch: *md\n---\n", "frontmatter-alias"),
        (b"---\nwatch: *.md\n---\n", "frontmatter-malformed"),
        (b"---\nwatch: x\n", "frontmatter-unterminated"),
        (b"---\nwatch: \xff\n---\n", "frontmatter-not-utf8"),
    ],
)
def test_a_watcher_whose_frontmatter_cannot_be_read_is_reported(data, code):
    watch, (problem,) = declared_watch(data)

    assert (watch, problem.code) == ((), code)
    assert problem.message.startswith("its `watch:` does not count: ")
    assert ("quotes" in problem.message) == (b": *" in data)  # a star without quotes is explained


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"# t\nwatch: x\n",
        b"---\na: b: c\n---\nwatch: x\n",
        b"---\nno end\n",
        b"---\n- watch: x\n---\n",
    ],
)
def test_a_note_that_declares_nothing_has_no_problem_here(data):
    assert declared_watch(data) == ((), ())


@pytest.mark.parametrize(
    "line",
    [
        b"---x\n",
        b"a: 1\n",
        b"\n",
        b" ",
        b"watch",
        b"watch ",
        b'"',
        b"'",
        b"a: ",
        b":",
        b"-\n",
        b"# x\n",
    ],
)
def test_no_block_is_slow_to_find_or_to_read(line):
    data = b"---\n" + line * ((2 << 20) // len(line))
    began = time.process_time()
    declared_watch(data)
    declared_watch(data + b"\n---\n")
    small = b"---\n" + line * (60_000 // len(line)) + b"\nwatch: x\n---\n"
    declared_watch(small)
    read_block(small, find_block(small).span)

    assert time.process_time() - began < 5


def test_thousands_of_blocks_give_yamls_values_and_keys_that_say_them(torture):
    chosen = random.Random(20250106)  # noqa: S311 - a corpus, not a secret
    read = 0
    for _ in range(50_000 if torture else 2_000):
        eol = chosen.choice(["\n", "\n", "\r\n"])
        block = "".join(line + eol for line in chosen.choices(LINES, k=chosen.randint(0, 3)))
        found, expected = matter(block), by_pyyaml(block)
        if found.readable and found.problems == ():
            read += 1
            assert found.values == (expected or {}), block
            for name, source in sources(block).items():
                assert by_pyyaml(source) == {name: found.values[name]}, (block, source)
        else:
            assert found.problems, block
            assert not isinstance(expected, dict) or not {
                problem.code for problem in found.problems
            } & {"frontmatter-malformed"}, block

    assert read > 600


def by_pyyaml(text):
    text = re.split(r"^\.\.\.[ \t]*\r?$", text, maxsplit=1, flags=re.MULTILINE)[
        0
    ]  # there the block ends
    try:
        return yaml.load(text, Loader=yaml.CBaseLoader)  # noqa: S506 - all texts, and ours
    except yaml.YAMLError:
        return "not YAML"
