"""Bounded YAML: hostile text is refused quickly by name, all other text comes out as strings."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parachuted.texts.yaml_events import MAX_BYTES
from parachuted.vault.bounded_yaml import (
    YamlRefusedError,
    node_stop,
    plain_text,
    read_events,
    read_value,
)

N = 65_000
BOMBS = {
    "a flow sequence": "[" * N,
    "a flow mapping": "{" * N,
    "both in turn": "{[" * (N // 2),
    "one bracket a line": "[\n" * (N // 2),
    "closers in quotes": '["]",' * (N // 5),
    "closers in a comment": "[ #]\n" * (N // 5),
    "dashes in one line": "- " * (N // 2),
    "question marks": "? " * (N // 2),
    "flow pairs": "{a: " * (N // 4),
    "a staircase": "".join(" " * depth + "a:\n" for depth in range(340)),
    "a hundred thousand items": "a: [" + "1," * (N // 2) + "]",
    "empty lists": "a: [" + "[]," * (N // 3 - 2) + "]",
    "keys without values": "a:\n" * (N // 3),
    "documents": "--- a\n" * (N // 7),
    "anchors": "a: " + "&a " * (N // 3 - 2),
    "an alias": "a: &x [1]\nb: [" + "*x," * 20_000 + "]",
    "laughs": "a: &a [x]\n"
    + "".join(f"k{i}: &k{i} [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" for i in range(9)),
    "an alias to itself": "a: &a [*a]",
    "a merge key": "a: &a {b: c}\nd:\n  <<: *a\n",
    "tabs": "\t" * N,
    "quotes left open": 'a: "' + "x " * (N // 2 - 4),
    "an unknown escape": 'a: "\\q"',
    "NUL": "a: \0",
    "a lone surrogate": "a: \ud800",
    "an escaped surrogate": 'a: "\\ud800"',
    "two documents": "a: 1\n--- \nb: 2\n",
    "a colon too many": "title: Foo: bar\n",
    "too much": "a: " + "x" * MAX_BYTES,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_by_name_and_quickly(name):
    began = time.process_time()
    with pytest.raises(YamlRefusedError) as refusal:
        read_events(BOMBS[name])

    assert (
        time.process_time() - began < 2
    )  # some 0.04 s; the bombs that get through take from seconds to for ever
    assert refusal.value.problem.code.startswith("frontmatter-")
    assert len(refusal.value.problem.message) < 300


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[" * 65, "frontmatter-too-deep"),
        ("- " * 65 + "a", "frontmatter-too-deep"),
        ('["]",' * 65, "frontmatter-too-deep"),
        ("a: *b", "frontmatter-alias"),
        ("- a\n" * 20_001, "frontmatter-too-large"),
        ("[" + "a," * 20_001 + "]", "frontmatter-too-long"),
        ("a: b: c", "frontmatter-malformed"),
    ],
)
def test_each_limit_has_its_own_name(text, code):
    with pytest.raises(YamlRefusedError) as refusal:
        read_events(text)

    assert refusal.value.problem.code == code


def test_the_message_names_the_line_in_the_file():
    with pytest.raises(YamlRefusedError, match=r"mapping values are not allowed .*\(line 3\)"):
        read_events("a: 1\ntitle: Foo: bar\n")


def test_what_is_just_within_the_limits_is_read():
    deep = "[" * 64 + "x" + "]" * 64
    value, problems = read_value(read_events(deep))

    for _ in range(64):
        (value,) = value
    assert (value, problems) == ("x", ())
    assert read_events("[" + "a," * 19_997 + "a]")


def test_many_small_lists_are_not_taken_for_a_deep_one():
    text = "".join(f'- "[[note {number}]]"\n' for number in range(500))

    assert len(read_value(read_events(text))[0]) == 500


@pytest.mark.parametrize(
    "word",
    [
        "10:30",
        "09:05",
        "no",
        "on",
        "yes",
        "true",
        "null",
        "~",
        "000123",
        "0x1f",
        "1e3",
        "2026-02-24",
        "2024-13-45",
        "=",
        "9" * 5000,
    ],
)
def test_no_word_is_read_as_anything_but_itself(word):
    assert read_value(read_events(f"a: {word}\n{word[:900]}: {word}"))[0] == {
        "a": word,
        word[:900]: word,
    }


def test_a_key_given_twice_and_one_of_a_template_are_reported():
    value, (twice, again) = read_value(read_events("a: 1\nb: {c: 1, c: 2}\na: 3\n"))
    assert value == {"a": "3", "b": {"c": "2"}}
    assert {twice.code, again.code} == {"frontmatter-duplicate-key"}
    assert "'a'" in twice.message + again.message

    value, problems = read_value(read_events("date: {{date}}\ntitle: x\n"))
    assert value == {"date": {}, "title": "x"}
    assert [problem.code for problem in problems] == ["frontmatter-complex-key"]


def test_an_empty_text_has_no_events():
    assert read_events("") == read_events("# a comment\n\n") == []


def test_plain_text_is_distinguished_from_quoted_tagged_and_block_text():
    events = read_events("- plain\n- 'q'\n- !!str t\n- |\n  b\n- [l]\n")

    assert [plain_text(event) for event in events[1:5]] == ["plain", None, None, None]
    assert node_stop(events, 0) == len(events)
    assert events[node_stop(events, 5) :][0] is events[-1]


NODES = st.recursive(
    st.text(
        st.characters(
            codec="utf-8",
            exclude_categories=["Cc"],
            exclude_characters="\u2028\u2029\x85\ufeff\ufffe\uffff",
        ),
        max_size=8,
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abc:# -'\"é", min_size=1, max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(NODES)
def test_what_a_dumper_writes_is_read_as_it_was(value):
    text = yaml.dump(
        value, Dumper=yaml.CDumper, allow_unicode=True, default_flow_style=None, sort_keys=False
    )
    events = [
        event
        for event in yaml.parse(text, Loader=yaml.CSafeLoader)
        if isinstance(event, yaml.AliasEvent)
    ]

    if not events:  # the dumper writes aliases for what it meets twice
        assert read_value(read_events(text)) == (value, ())
