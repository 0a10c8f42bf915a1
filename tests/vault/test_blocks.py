"""Blocks: top-level ones only, at their places in bytes, within bounds of memory and time."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from parachuted.vault import blocks
from parachuted.vault.blocks import MAX_DEPTH, MAX_MARKS, MarkdownRefusedError, read_blocks
from parachuted.vault.headings import read_outline

SHAPES = [
    *(
        "# x\n",
        "a*",
        "[",
        "`a",
        "<a",
        "_a_ ",
        "a\n",
        "#\n",
        "- a\n",
        "> a\n\n",
        "<b>x\n",
        "[a]: b\n",
        "[a\n",
        "<!--\n",
        "```\n",
        "    a\n",
        "a\n-\n",
    ),
    *(">", "1. ", "- ", "\t", "|", "&", "![a](", "\r", "-\t", "* + - ", "<a b='", "> - ", "é"),
]


def found(data, start=0):
    return [
        (block.kind, data[block.start : block.stop])
        for block in read_blocks(data, start, len(data))
    ]


def test_blocks_have_their_bytes_whatever_the_encoding():
    data = (
        "é\n\n# é\r\n- ## no\n\n> # no\n> ".encode()
        + b"\xff\0\n\n```\n# no\n```\n***\n<b>\n\n    x\n"
    )

    assert [(kind, text.rstrip()) for kind, text in found(data)] == [
        ("Paragraph", "é".encode()),
        ("Heading", "# é".encode()),
        ("List", b"- ## no"),
        ("BlockQuote", b"> # no\n> \xff\0"),
        ("Fenced", b"```\n# no\n```"),
        ("Rule", b"***"),
        ("HtmlBlock", b"<b>"),
        ("CodeBlock", b"x"),
    ]


def test_blocks_are_those_between_two_places():
    data = b"# A\n# B\n# C\n"

    assert [data[block.start : block.stop] for block in read_blocks(data, 4, 8)] == [b"# B\n"]


def test_only_spaces_and_tabs_make_a_blank_line():
    assert found(b"a\n\x0b\n\x0c\nb") == [("Paragraph", b"a\n\x0b\n\x0c\nb")]


def test_a_lone_return_ends_a_line():
    assert found(b"a\r# B\rc") == [
        ("Paragraph", b"a\r"),
        ("Heading", b"# B\r"),
        ("Paragraph", b"c"),
    ]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"a*" * (MAX_MARKS + 1), "too-many-marks"),
        (b">" * (MAX_DEPTH + 1) + b" a\n" * 10_000, "too-deep"),
        (b"* + - " * 200 + b"a\n" * 10_000, "too-deep"),
        (b"a\n" * 10_000 + b"\t" * MAX_DEPTH + b"- a\n", "too-deep"),
    ],
)
def test_what_would_take_too_much_is_refused(data, code):
    with pytest.raises(MarkdownRefusedError) as refused:
        list(read_blocks(data, 0, len(data)))
    assert refused.value.problem.code == code
    assert not read_outline(b" # x\n" + data, 0).complete


def test_long_rules_and_deep_code_are_not_refused():
    data = (b"-" * 500 + b"\n\n" + b"- " * 90 + b"\n\n" + b" " * 500 + b"x\n\n") * 40

    assert found(data)


def test_a_parser_that_fails_refuses_the_text_and_ends_nothing(monkeypatch):
    failure = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})

    def fail(text):
        raise failure(text)

    monkeypatch.setattr(blocks.pyromark, "events_with_range", fail)

    assert [problem.code for problem in read_outline(b" # A\n", 0).problems] == ["not-parsed"]


@pytest.mark.parametrize("shape", SHAPES)
def test_no_shape_takes_long(shape, torture):
    size = (16 << 20) if torture else (1 << 16)
    data = shape.encode() * (size // len(shape.encode()))
    began = time.process_time()
    outlines = [
        read_outline(head + data, 0) for head in (b"", b"- a\n", b" # x\n", b"> " * 150 + b"a\n")
    ]

    assert len(outlines) == 4
    assert time.process_time() - began < (
        120 if torture else 4
    )  # under 0.5 s, under 20 s; what is quadratic takes a minute


MEMORY = """
import resource, sys
from parachuted.vault.headings import read_outline
shape, size = sys.argv[1].encode(), int(sys.argv[2])
data = b" # x\\n" + shape * (size // len(shape))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read_outline(data, 0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("shape", ["[", "a*", "x", "a\n", "> a\n\n"])
def test_memory_stays_within_a_constant_of_the_size(shape, torture):
    size = (16 << 20) if torture else (2 << 20)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, shape, str(size)], capture_output=True, text=True, check=True
    )

    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 4 * size + (256 << 20)
