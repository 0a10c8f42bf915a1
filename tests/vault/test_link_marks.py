from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.vault import links_in, parse_note
from parachuted.vault.frontmatter import MAX_NOTE_BYTES
from parachuted.vault.link_marks import find_links


def targets(text: str | bytes) -> list[str]:
    return [
        link.target
        for link in links_in(parse_note(text if isinstance(text, bytes) else text.encode()))
    ]


@pytest.mark.parametrize(
    "text",
    [
        "`[[no]]`",
        "``[[no]] ` ``",
        "```\n[[no]]\n```",
        "~~~ text\n[no](no.md)\n~~~",
        "> ```\n> [[no]]\n> ```",
        "- ```\n  [[no]]\n  ```",
        "````\n```\n[[no]]\n````",
        "```\n[[no]]",
        "<!-- [[no]] -->",
        "<!--\n[[no]]",
        "%%[[no]]%%",
        "%%\n[no](no.md)\n%%",
        "<pre>[[no]]</pre>",
        "<script>\n[[no]]\n</script>",
        r"\[[no]]",
        r"\[no](no.md)",
        r"[no\](no.md)",
        "[no]\n\n(no.md)",
        "[[]]",
        "[[ ]]",
        "[[#heading]]",
        "[t](#heading)",
        "[[a\nb]]",
        "[t]()",
        "[t](https://x.org/[a](b))",
        "[t](mailto:a@b.org)",
        "[t](//host/a.md)",
        "[[https://x.org]]",
        "[ref]: https://x.org",
        "[^1]: a footnote",
        "[t](two words.md)",
        "---\n# [[no]]\nkey: [[a], [b]]\n---\n",
        '---\n# x: "[[no]]"\n---\n',
        '---\nkey: x # "[[no]]"\nlist: | # [[no]]\n  x\n---\n',
        "---\nkey: [[a #no]]\n  ]]\n---\n",
        "---\nkey: |\n  [[no\n  more]]\n---\n",
        "---\nkey: >\n  [[no\n\n  more]]\n---\n",
        "---\nkey: [[1, 2], [3, 4]]\n---\n",
    ],
)
def test_these_hold_no_link(text: str):
    assert targets(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`a [[yes]]", ["yes"]),
        ("`a\n\n[[yes]] `", ["yes"]),
        ("100 %% [[yes]]", ["yes"]),
        ("a <!-- [[yes]]", ["yes"]),
        ("```\nx\n```\n[[yes]]", ["yes"]),
        ("``` a ` b\n[[yes]]", ["yes"]),
        ("[![image](a.png)](b.md)", ["a.png", "b.md"]),
        ("[a [[b]] c](d.md)", ["b", "d.md"]),
        ("[x]: a.md 'title'\n   [y]: <b c.md>", ["a.md", "b c.md"]),
        ("| [[a\\|b]] | [c](d.md) |", ["a", "d.md"]),
        ("[t](a(1).md) [t](a(b(c)).md)", ["a(1).md", "a(b(c)).md"]),
        ("[t](a.md \"b\") [t](a.md 'b') [t](a.md (b)) [t]( a.md )", ["a.md"] * 4),
        ("[two\nlines](a.md)", ["a.md"]),
        (
            "---\nup: \"[[Home]]\"\nlist:\n  - '[[It''s|x]]'\n---\n[[Body]]",
            ["Home", "It's", "Body"],
        ),
        ("\ufeff[[bom]]\r\n[[crlf]]\r\n", ["bom", "crlf"]),
        (
            "[t](a%20b.md) [t](%C3%A9.md) [t](100%.md) [t](a\\_b.md)",
            ["a b.md", "é.md", "100%.md", "a_b.md"],
        ),
    ],
)
def test_these_do(text: str, expected: list[str]):
    assert targets(text) == expected


@pytest.mark.parametrize(
    ("matter", "expected"),
    [
        ("up: see [[A]] and [[B#x|y]]", ["A", "B"]),
        ("up: 'see [[It''s]]'\nby: \"\\\"[[Caf\\xE9]]\\\"\"", ["It's", "Café"]),
        ("up: [[A]]\nby: [[[B]], [[C|c]]]\nnew: [[Smith, John]]", ["A", "B", "C", "Smith, John"]),
        ("[[é]]: [[[[A]]], [['é', '[[B]]']]]\nby: '[[C]]'", ["é", "A", "B", "C"]),
        ("up:\n- [[A]]\n- x [[B]]\n- {deep: '[[C]]'}", ["A", "B", "C"]),
        ("up: |\n  [[A]]\n\n  [[B]]\nby: >-\n  a [[C]]\n  b [[D]]", ["A", "B", "C", "D"]),
        ("up: a [[My\n  long note]]\nby: >\n  [[And\n  this]]", ["My long note", "And this"]),
        ('up: "a [[Caf\\xE9\\\n  \\ bar]]"', ["Café bar"]),
        ("up: '[t](a%20b.md#x) [u](<c d.md>)'", ["a b.md", "c d.md"]),
        ("no: yaml: here\nup: see [[A]]\nby:\n- '[[B]]'", ["A", "B"]),
        ("no: yaml: [[A]] '[[B]]'\nup: [[C]]", ["A", "B", "C"]),
    ],
)
def test_the_frontmatter_holds_links_however_yaml_writes_its_texts(
    matter: str, expected: list[str]
):
    for text in (matter, matter.replace("\n", "\r\n"), f"é: ü\n{matter}"):
        assert targets(f"---\n{text}\n---\n") == expected


def test_a_name_that_is_not_utf8_is_kept_as_file_names_are():
    assert targets(b"[[caf\xe9]] [t](caf%E9.md)") == ["caf\udce9", "caf\udce9.md"]


@pytest.mark.parametrize(
    "hostile",
    [
        b"[" * 50_000,
        b"[[a" * 17_500,
        b"[a](b" * 10_000,
        b"](" * 25_000,
        b"` `` " * 10_000,
        b"[`" * 25_000,
        b"[<!--" * 10_000,
        b"%%[" * 16_666,
        b'[](a "' * 8_250,
        b"[](<" * 12_500,
        b"[a](" + b"(" * 50_000,
        b"```\n[\n````\n" * 4_500,
        b"[" * 25_000 + b"](x)" * 25_000,
        b"\n[a]:" * 10_000,
        b"<pre>[" * 8_250,
        b"[[a]]" * 10_000,
        b"\n" * 50_000 + b"[`" * 500,
        b"---\n" + b"a: [[b]]\n" * 7_000 + b"*\n---\n",
        b"---\n" + b"a: [[b]]\n" * 50_000 + b"---\n",
        b'---\na: "' + b"[[a#" * 3_750 + b'"\n---\n',
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_text_takes_no_longer_than_its_length(hostile: bytes):
    began = time.process_time()
    for link in find_links(parse_note(hostile)):
        assert link.span.start < link.span.stop
    assert time.process_time() - began < 5  # under 0.5 s


def test_what_is_too_large_to_be_looked_into_has_no_links():
    assert targets(b"[[a]] " + b"x" * MAX_NOTE_BYTES) == []


@given(st.text(alphabet="[]()!`~<>-%\\#|a \n\"'", max_size=60))
def test_no_text_is_too_odd_and_spans_are_in_order(text: str):
    found = list(find_links(parse_note(text.encode())))

    at = 0
    for link in found:
        assert at <= link.span.start < link.span.stop <= len(text)
        at = link.span.stop if link.label is None or b"[" not in link.label else at
