"""Patterns of paths, held against a reference that is too simple to be wrong and too slow to be
used.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from parachuted.keys import PathGlob


def means(pattern: str, path: str) -> bool:
    """The reference: every way of giving each star something is tried."""
    names = pattern.split("/")
    return _names([*names[:-1], "*", "**"] if names[-1] == "**" else names, path.split("/"))


def _names(names: list[str], parts: list[str]) -> bool:
    if not names or not parts:
        return not parts and all(name == "**" for name in names)
    if names[0] == "**":
        return any(_names(names[1:], parts[given:]) for given in range(len(parts) + 1))
    return _name(names[0], parts[0]) and _names(names[1:], parts[1:])


def _name(pattern: str, name: str) -> bool:
    if not pattern or not name:
        return not name and set(pattern) <= {"*"}
    if pattern[0] == "*":
        return any(_name(pattern[1:], name[given:]) for given in range(len(name) + 1))
    return pattern[0] in {"?", name[0]} and _name(pattern[1:], name[1:])


LETTERS = "ab\n."
NAMES = st.text(LETTERS, min_size=1, max_size=4).filter(lambda name: name not in {".", ".."})
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)
PIECES = st.one_of(st.sampled_from(["**", "*", "a*", "*b", "a*b*a", "?", "a?"]), NAMES)
GLOBS = st.lists(PIECES, min_size=1, max_size=5).map("/".join).map(PathGlob)


@given(GLOBS, PATHS)
def test_a_pattern_means_what_the_reference_says(glob, path):
    assert glob.matches(path) is means(glob.text, path)


@st.composite
def meant(draw: st.DrawFn, glob: PathGlob) -> str:
    """A path that the pattern means, but for luck: its stars are given something."""
    names: list[str] = []
    for name in glob.text.split("/"):
        if name == "**":
            names += draw(st.lists(NAMES, max_size=2))
        else:
            names.append(
                "".join(
                    draw(st.text(LETTERS, max_size=2))
                    if sign == "*"
                    else "a"
                    if sign == "?"
                    else sign
                    for sign in name
                )
            )
    return "/".join(name for name in names if name) or "a"


@st.composite
def widened(draw: st.DrawFn, glob: PathGlob) -> PathGlob:
    """A pattern that means more, perhaps: some names become stars."""
    return PathGlob(
        "/".join(
            draw(st.sampled_from([name, name, "*", "**", f"{name.strip('*')}*"])) or "*"
            for name in glob.text.split("/")
        )
    )


@given(GLOBS.flatmap(lambda glob: st.tuples(st.just(glob), meant(glob))))
def test_a_pattern_with_filled_stars_means_what_the_reference_says(pair):
    glob, path = pair

    assert glob.matches(path) is means(glob.text, path)


@given(GLOBS.flatmap(lambda glob: st.tuples(st.just(glob), meant(glob))))
def test_every_folder_above_a_file_that_is_meant_is_entered(pair):
    glob, path = pair
    assume(glob.matches(path))
    parts = path.split("/")

    assert all(glob.enters("/".join(parts[:depth])) for depth in range(len(parts)))


@given(
    GLOBS.flatmap(
        lambda glob: st.tuples(
            st.one_of(widened(glob), GLOBS), st.just(glob), st.one_of(meant(glob), PATHS)
        )
    )
)
def test_what_is_covered_means_nothing_that_the_other_does_not(three):
    wide, narrow, path = three

    assert wide.matches(path) or not (wide.covers(narrow) and narrow.matches(path))


@given(GLOBS)
def test_a_pattern_covers_itself_and_everything_covers_it(glob):
    assert glob.covers(glob)
    assert PathGlob("**").covers(glob)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("Projects/**", "Projects/garden/**"),
        ("Projects/**", "Projects/*"),
        ("Projects/**", "Projects/**/notes.md"),
        ("**/*.md", "Projects/**/a.md"),
        ("a?c/*", "abc/x*"),
    ],
)
def test_what_is_plainly_narrower_is_covered(wide, narrow):
    assert PathGlob(wide).covers(PathGlob(narrow))
    assert not PathGlob(narrow).covers(PathGlob(wide))


@pytest.mark.parametrize(
    ("wide", "other"),
    [
        ("a/*", "a/**"),
        ("a/*/b", "a/**/b"),
        ("a?", "a*"),
        ("*", "**"),
        ("a/*.md", "a/*"),
        ("Projects/**", "Projects"),
    ],
)
def test_what_reaches_further_is_not_covered(wide, other):
    assert not PathGlob(wide).covers(PathGlob(other))


@pytest.mark.parametrize(
    ("glob", "meant", "not_meant"),
    [
        (
            "Projects/**",
            ["Projects/a", "Projects/a/b.md"],
            ["Projects", "Projects/", "projects/a", "Projectsa/b", "a/Projects/b"],
        ),
        ("*.md", ["a.md", ".md"], ["a/b.md", "a.mdx", "a.md/b"]),
        ("Daily/*/x.md", ["Daily/a/x.md"], ["Daily/x.md", "Daily/a/b/x.md", "Daily//x.md"]),
        ("a[b]c", ["a[b]c"], ["abc"]),
        ("a.b", ["a.b"], ["axb"]),
        ("**", ["a", "a/b", "a\nb"], [""]),
        ("*", ["a\udcff"], ["a/b", ""]),
    ],
)
def test_examples(glob, meant, not_meant):
    assert [path for path in meant if not PathGlob(glob).matches(path)] == []
    assert [path for path in not_meant if PathGlob(glob).matches(path)] == []


def test_what_is_below_a_folder_may_be_entered_or_not():
    glob = PathGlob("Projects/*/notes/**")

    assert all(
        map(glob.enters, ["", "Projects", "Projects/a", "Projects/a/notes", "Projects/a/notes/b/c"])
    )
    assert not any(map(glob.enters, ["Daily", "Projects/a/b"]))
    assert PathGlob("Projects/*").enters("Projects")
    assert not PathGlob("Projects/*").enters("Projects/a")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "../a",
        "a/../b",
        "./a",
        "~/a",
        "a**",
        "**b",
        "a/***/b",
        "a\0b",
        "a" * 1001,
    ],
)
def test_what_can_mean_nothing_in_a_vault_is_refused(text):
    with pytest.raises(ValueError, match="not a pattern of paths"):
        PathGlob(text)


LONG, DEEP = "/".join(["a" * 255] * 16), "/".join("a" * 2048)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("*a" * 480 + "b", "a" * 255),
        ("**/" + "*a" * 480 + "b", LONG),
        ("**/a/" * 199 + "b", DEEP),
        ("**/" + "*/" * 300 + "b", DEEP),
        ("**/" + "*a/" * 300 + "b", DEEP),
        ("**/*a*a*a*a/" * 80 + "b", LONG),
        ("**/" + "?" * 250 + "b/" + "**/a/" * 140 + "b", LONG),
    ],
)
def test_no_pattern_takes_long(text, path):
    glob, began = PathGlob(text), time.process_time()
    assert not glob.matches(path)
    assert glob.covers(glob)
    assert time.process_time() - began < 1
