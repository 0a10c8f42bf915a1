"""Merge: what does not clash comes together byte for byte, what does is told, and nothing
stalls.
"""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.vault.merge import MAX_LINES, merge_three

LINE = st.sampled_from(["a", "b", "c", "", "- x", "- y", "# t", "\xff"]).map(
    lambda text: text.encode("latin-1")
)
TEXT = st.lists(
    st.tuples(LINE, st.sampled_from([b"\n", b"\n", b"\r\n"])).map(b"".join), max_size=12
).map(b"".join)
OPEN_TEXT = st.tuples(TEXT, LINE).map(b"".join)
TEXTS = TEXT | OPEN_TEXT


def merged(base, ours, theirs):
    return merge_three(base.encode(), ours.encode(), theirs.encode())


@given(TEXTS, TEXTS)
def test_a_change_on_one_side_only_is_the_result(base, changed):
    for result in (
        merge_three(base, changed, base),
        merge_three(base, base, changed),
        merge_three(base, changed, changed),
    ):
        assert (result.data, result.clean, result.kept) == (changed, True, ())


@given(TEXTS, TEXTS, TEXTS)
def test_the_sides_may_be_swapped_when_they_do_not_clash(base, ours, theirs):
    one, other = merge_three(base, ours, theirs), merge_three(base, theirs, ours)

    assert one.clean == other.clean
    assert one.data == (other.data if one.clean else theirs)
    assert one.kept == ()


@given(st.data(), st.integers(5, 40), st.booleans())
def test_changes_in_different_places_come_together(data, count, ends):
    lines = [b"line %d\n" % number for number in range(count)]
    lines[-1] = lines[-1] if ends else lines[-1][:-1]
    places = data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=6, unique=True))
    places = [
        place
        for index, place in enumerate(sorted(places))
        if index == 0 or place - sorted(places)[index - 1] > 1
    ]
    change = st.sampled_from([b"", b"new\n", b"new\r\nnew\n", b"\n"])
    ours, theirs, both = list(lines), list(lines), list(lines)
    for place in places:
        side = data.draw(st.sampled_from([ours, theirs]))
        side[place] = both[place] = data.draw(change) + (
            lines[place] if place == count - 1 else b""
        )

    result = merge_three(b"".join(lines), b"".join(ours), b"".join(theirs))

    assert (result.data, result.clean) == (b"".join(both), True)


@given(TEXTS, TEXTS, TEXTS)
def test_no_line_is_made_up_and_theirs_wins_where_both_clash(base, ours, theirs):
    result = merge_three(base, ours, theirs, prefer="theirs")

    assert set(result.data.split(b"\n")) <= {
        *base.split(b"\n"),
        *ours.split(b"\n"),
        *theirs.split(b"\n"),
    }
    assert result.clean == (result.kept == ()) == merge_three(base, ours, theirs).clean


@pytest.mark.parametrize(
    ("ours", "theirs", "prefer", "after", "kept"),
    [
        (b"a\nx\nours\ny\nC\n", b"a\nx\ntheirs\ny\nc\n", "none", b"a\nx\ntheirs\ny\nc\n", ()),
        (b"A\nx\nours\ny\nc\n", b"a\nx\nT\ny\nc\n", "theirs", b"A\nx\nT\ny\nc\n", ("T\n",)),
        (b"a\nx\nours\ny\nc\n", b"a\nx\ny\nc\n", "theirs", b"a\nx\ny\nc\n", ("",)),
        (b"a\nx\nB\ny\nc\n", b"a\nx\n\xff\ny\nc\n", "theirs", b"a\nx\n\xff\ny\nc\n", ("\ufffd\n",)),
    ],
)
def test_a_clash_is_reported_and_theirs_kept(ours, theirs, prefer, after, kept):
    result = merge_three(b"a\nx\nb\ny\nc\n", ours, theirs, prefer=prefer)

    assert (result.data, result.clean, result.kept) == (after, False, kept)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "after"),
    [
        ("a\nb\nc\n", "a\nb\nc", "A\nb\nc\n", "A\nb\nc"),
        ("a\nb\nc", "a\nb\nc\nd", "A\nb\nc", "A\nb\nc\nd"),
        ("a\r\nb\r\nc\r\n", "a\r\nb\r\nc\r\nd\r\n", "A\r\nb\r\nc\r\n", "A\r\nb\r\nc\r\nd\r\n"),
        ("a\nb\nc\n", "a\r\nb\nc\n", "a\nb\nC\n", "a\r\nb\nC\n"),
        ("a\nb\nc\n", "b\nc\n", "a\nb\n", "b\n"),
        ("a\nb\nc\n", "x\nb\nc\n", "x\nb\nC\n", "x\nb\nC\n"),
        ("a\rb\nc\nd\n", "a\rB\nc\nd\n", "a\rb\nc\nD\n", "a\rB\nc\nD\n"),
        ("\ufeffa\nb\nc\n", "a\nb\nc\n", "\ufeffa\nb\nC\n", "a\nb\nC\n"),
        ("x\nx\nx\ne\n", "x\nx\nx\ne\no\n", "n\nx\nx\nx\ne\n", "n\nx\nx\nx\ne\no\n"),
        ("0\n1\n2\n3\n4\n", "1\n2\n3\n4\n0\n", "0\n1\nB\n3\n4\n", "1\nB\n3\n4\n0\n"),
    ],
)
def test_line_ends_come_through_as_they_are(base, ours, theirs, after):
    result = merged(base, ours, theirs)

    assert (result.data.decode(), result.clean) == (after, True)


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        ("", "a", "b"),
        ("a", "a\n", "a\nb"),
        ("a\nb\n", "a\nb\nours\n", "a\nb\ntheirs\n"),
        ("a\nb\nc\n", "a\nB\nc\n", "a\nc\n"),
        ("a\nb\n", "", "a\nB\n"),
        ("x\nx\nx\n", "x\nx\n", "x\nx\nx\nx\n"),
        ("x\nx\n\nx\n", "x\nx\n", "x\nx\n\nx\n\nx\n"),
        ("a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\nb\nC\nd\n"),
    ],
)
def test_changes_in_one_place_clash(base, ours, theirs):
    assert not merged(base, ours, theirs).clean


def test_text_that_repeats_is_paired_by_what_does_not():
    base = "## A\n\n- x\n\n## B\n\n- x\n\n## C\n\n- x\n"

    ours = base.replace("## B\n\n", "## B\n\n- new\n")
    theirs = base.replace("## A", "## A2").replace("## C\n\n- x", "## C\n\n- y")

    assert merged(base, ours, theirs).data == b"## A2\n\n- x\n\n## B\n\n- new\n- x\n\n## C\n\n- y\n"


def test_too_many_changed_lines_clash_at_once():
    base = b"".join(b"%d\n" % number for number in range(MAX_LINES + 10))
    theirs = base.replace(b"1", b"t")
    began = time.process_time()

    assert merge_three(base, base.replace(b"2", b"o"), theirs).data == theirs
    assert len(merge_three(base, base.replace(b"2", b"o"), theirs, prefer="theirs").kept) == 1
    assert time.process_time() - began < 4


def test_a_small_change_of_a_huge_text_is_merged():
    base = (
        b"first\n"
        + b"x" * 5_000_000
        + b"\n"
        + b"".join(b"%d\n" % number for number in range(MAX_LINES))
    )
    result = merge_three(base, base + b"ours\n", base[:-20_000] + b"theirs\n" + base[-20_000:])

    assert result.clean
    assert result.data == base[:-20_000] + b"theirs\n" + base[-20_000:] + b"ours\n"


@pytest.mark.parametrize("kinds", [1, 2, 50, 2_500, 10_000])
@pytest.mark.parametrize("shuffled", [False, True])
def test_no_texts_take_long(kinds, shuffled):
    chosen = random.Random(kinds)  # noqa: S311 - a text, not a secret
    lines = [b"%d\n" % chosen.randrange(kinds) for _ in range(10_000)]
    sides = [list(lines), list(lines)]
    for side in sides:
        for place in chosen.sample(range(10_000), 250):
            side[place] = b"new %d\n" % place
        if shuffled:
            chosen.shuffle(side)
    began = time.process_time()
    merge_three(b"".join(lines), b"".join(sides[0]), b"".join(sides[1]))

    assert time.process_time() - began < 5


@pytest.mark.parametrize("prefer", ["none", "theirs"])
def test_what_is_not_text_is_never_put_together_from_two(prefer):
    base, ours, theirs = (
        b"\0head\n%b\nb\nc\nd\n%b\n" % pair
        for pair in ((b"1", b"2"), (b"one", b"2"), (b"1", b"two"))
    )

    merged = merge_three(base, ours, theirs, prefer=prefer)

    assert (merged.data, merged.clean) == (theirs, False)
