"""Diff: how two texts of a file differ."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from parachuted.vault.merge import diff_of

A = b"# A\n\n## Facts\n\n- one\n"


def test_a_pure_move_has_a_diff_of_names_alone():
    assert diff_of(A, A, "b.md", source="a.md") == "rename from a.md\nrename to b.md\n"
    assert diff_of(A, A, "b.md") == ""


def test_lines_end_where_editors_end_them():
    assert diff_of(b"a\x0bb\n", b"a\x0bc\n", "x").endswith("-a\x0bb\n+a\x0bc\n")
    assert diff_of(b"a", b"a\n", "x").endswith("-a\n\\ No newline at end of file\n+a\n")


def test_a_long_difference_is_cut():
    diff = diff_of(b"", b"".join(b"- line %d\n" % number for number in range(5000)), "x")

    assert len(diff) < 8300
    assert diff.endswith("(cut: the difference is longer)")


def test_a_change_far_down_in_a_long_note_is_shown():
    text = b"".join(b"- line %d\n" % number for number in range(50_000))

    assert diff_of(text, text + b"- last\n", "x").endswith(
        " - line 49998\n - line 49999\n+- last\n"
    )


def test_texts_too_large_to_compare_are_reported_by_size():
    assert diff_of(b"x" * (5 << 20), b"y", "x") == "(too large to be compared: 5242880 and 1 bytes)"


def test_lines_made_to_be_compared_for_hours_are_not():
    one = b"".join(b"%d\n" % (number % 199) for number in range(60_000))
    other = b"".join(b"%d\n" % (number * 7 % 199) for number in range(60_000))
    began = time.process_time()
    diff_of(one, other, "x")

    assert time.process_time() - began < 15


TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "d"]), max_size=12).map(
    lambda lines: "".join(f"{line}\n" for line in lines).encode()
)


def patched(text: bytes, diff: str) -> bytes:
    """The text with the diff applied to it, each line that goes or stays compared with what is
    there.
    """
    lines, done, at = text.decode().splitlines(keepends=True), [], 0
    for line in diff.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            first, length = map(int, re.findall(r"-(\d+),(\d+)", line)[0])
            start = first - 1 if length else first
            done += lines[at:start]
            at = start
        elif line.startswith("+"):
            done.append(line[1:])
        else:
            assert lines[at] == line[1:]
            done += [line[1:]] if line.startswith(" ") else []
            at += 1
    return "".join([*done, *lines[at:]]).encode()


@given(TEXTS, TEXTS)
def test_a_diff_leads_from_one_text_to_the_other(before: bytes, after: bytes):
    assert patched(before, diff_of(before, after, "x")) == after
