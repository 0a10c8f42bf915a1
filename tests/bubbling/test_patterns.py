from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.bubbling.patterns import (
    MAX_PATTERNS,
    PatternPart,
    SegmentGlob,
    parse_declaration,
    parse_pattern,
)

ROOT = "AGENTS.md"
DEEP, ONE = SegmentGlob("**"), SegmentGlob("*")


def segments(text, watcher=ROOT):
    return parse_pattern(text, watcher).segments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Projects", ("Projects",)),
        ("Projects/", ("Projects",)),
        ("Projects/*", ("Projects", ONE)),
        ("Projects/p?", ("Projects", SegmentGlob("p?"))),
        ("**/notes", (DEEP, "notes")),
        ("./Projects", ("Projects",)),
        ("Projects/./a", ("Projects", "a")),
        ("Projects/../Areas", ("Areas",)),
        ("  Projects  ", ("Projects",)),
        ("Projects/**", ("Projects", DEEP, ONE)),  # one folder or more
        ("**/**", (DEEP, ONE)),
        ("a/**/**/x.md", ("a", DEEP, "x.md")),
        ("a**b/***", (SegmentGlob("a*b"), ONE)),
        ("{a,b}/[x].md", ("{a,b}", "[x].md")),
        (unicodedata.normalize("NFD", "Café/Über.md"), ("Café", "Über.md")),
        ("People/@kevin/", ("People", "@kevin")),
    ],
)
def test_a_pattern_is_read_from_the_vaults_top(text, expected):
    assert segments(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("./", ("Projects", "a")),
        (".", ("Projects", "a")),
        ("./*", ("Projects", "a", ONE)),
        ("./x.md", ("Projects", "a", "x.md")),
        ("../", ("Projects",)),
        ("..", ("Projects",)),
        ("../../", ()),
        ("../b", ("Projects", "b")),
        ("../../Areas/*", ("Areas", ONE)),
        ("b", ("b",)),
    ],
)
def test_a_pattern_that_begins_with_dots_is_read_from_the_watchers_folder(text, expected):
    assert segments(text, "Projects/a/AGENTS.md") == expected


def test_the_root_note_can_name_its_own_folder_but_has_no_parent():
    pattern = parse_pattern(".", ROOT)

    assert (pattern.segments, pattern.context) == ((), True)
    with pytest.raises(ValueError, match="leaves the vault"):
        parse_pattern("../", ROOT)


NOTES = ["notes.md", "*.md", "**/x.md", "./a/photo.JPG", "a/?.txt", "Projects/*/AGENTS.md", "x.mp3"]
FOLDERS = ["Projects", "Projects/*", "../", "a/notes.md/", "v1.2", "release-2.0", "**", ".obsidian"]


@pytest.mark.parametrize("text", [*NOTES, *FOLDERS, "a.verylongsuffix", "*.*"])
def test_a_pattern_with_a_file_suffix_means_notes_else_a_context_file(text):
    assert parse_pattern(text, "x/AGENTS.md").context == (text not in NOTES)


def test_wildcards_in_the_name_of_the_watchers_own_folder_stay_names():
    assert segments("./*.md", "what?/**/AGENTS.md") == ("what?", "**", SegmentGlob("*.md"))
    decomposed = unicodedata.normalize("NFD", "Café/a.md")
    assert segments("./x.md", decomposed) == ("Café", "x.md")


def test_an_exclamation_mark_excludes():
    pattern = parse_pattern("! Archive/*", ROOT)

    assert (pattern.excludes, pattern.segments) == (True, ("Archive", ONE))
    assert pattern.text == "! Archive/*"


@pytest.mark.parametrize(
    ("text", "where", "narrowing"),
    [
        ("Projects/*#Facts", ("Projects", ONE), PatternPart(mark="#", name="Facts")),
        (
            "Projects/*#Current Focus",
            ("Projects", ONE),
            PatternPart(mark="#", name="Current Focus"),
        ),
        ("Projects/*@status", ("Projects", ONE), PatternPart(mark="@", name="status")),
        ("People/@kevin", ("People",), PatternPart(mark="@", name="kevin")),
        ("../@status", ("Projects",), PatternPart(mark="@", name="status")),
        ("./#What now?", ("Projects", "a"), PatternPart(mark="#", name="What now?")),
        (
            "x.md#Pros/Cons of C# and a.md",
            ("x.md",),
            PatternPart(mark="#", name="Pros/Cons of C# and a.md"),
        ),
        ("x.md@due date", ("x.md",), PatternPart(mark="@", name="due date")),
        ("C#.md#Facts", ("C#.md",), PatternPart(mark="#", name="Facts")),
        ("C#.md@status", ("C#.md",), PatternPart(mark="@", name="status")),
        ("me@home#Facts", ("me@home",), PatternPart(mark="#", name="Facts")),
    ],
)
def test_a_mark_behind_a_pattern_narrows_it(text, where, narrowing):
    pattern = parse_pattern(text, "Projects/a/AGENTS.md")

    assert (pattern.segments, pattern.narrowing) == (where, narrowing)


@pytest.mark.parametrize(
    "text",
    [
        "C#.md",
        "Projects/C#",
        "Projects/C# notes",
        "People/@kevin.md",
        "@kevin",
        "#inbox",
        "me@example.org",
        "a@2x.png",
        "notes#1.md",
        "x/a#b/c.md",
    ],
)
def test_a_mark_that_is_part_of_a_name_does_not_narrow(text):
    pattern = parse_pattern(text, ROOT)

    assert (pattern.narrowing, "/".join(map(str, pattern.segments))) == (None, text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("!", "empty"),
        ("/etc/passwd", "absolute"),
        ("!/etc", "absolute"),
        ("~/notes", "begins with `~`"),
        ("~root/x.md", "begins with `~`"),
        ("a//b", "holds `//`"),
        ("https://example.org/x.md", "holds `//`"),
        ("a\x00b", "control character"),
        ("a\nb.md", "control character"),
        ("a\x85b.md", "control character"),
        ("../../../x.md", "leaves the vault"),
        ("a/../../x.md", "leaves the vault"),
        ("Projects/*/..", "cannot follow a wildcard"),
        ("**/../../..", "cannot follow a wildcard"),
        ("a" * 1_001, "longer than 1,000"),
        ("/".join("a" * 33), "more than 32 segments"),
        ("a/**/b/**/c/**/d/**/e/**/f.md", "more than 4"),
        ("**/" * 5 + "x.md", "more than 4"),
    ],
)
def test_a_hostile_pattern_is_refused_with_a_sentence(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_pattern(text, "Projects/a/AGENTS.md")


def test_a_pattern_at_the_bounds_is_read():
    assert len(segments("a/" * 32)) == 32
    assert len(segments("a" * 1_000)) == 1
    assert len(segments("**/a/" * 4 + "x.md")) == 9


def test_a_declaration_keeps_what_can_be_read_and_reports_the_rest():
    declaration = parse_declaration(ROOT, ["Projects/*", "../", 5, None, "Projects/*", "/etc"])

    assert [pattern.text for pattern in declaration.patterns] == ["Projects/*"]
    assert declaration.problems == (
        '"../": The pattern leaves the vault.',
        "A pattern must be text; this one is of the type int.",
        "A pattern must be text; this one is of the type NoneType.",
        '"/etc": The pattern is absolute; write it from the vault\'s top, without the first `/`.',
    )


@pytest.mark.parametrize(
    ("given_texts", "patterns", "problems"),
    [
        *((rubbish, [], 1) for rubbish in (True, 5, 1.5, {"a": "b"}, {"Projects/*"})),
        *((nothing, [], 0) for nothing in (None, [], ())),
        ("Projects/*", ["Projects/*"], 0),
    ],
)
def test_a_declaration_is_a_list_or_one_pattern(given_texts, patterns, problems):
    declaration = parse_declaration(ROOT, given_texts)

    assert [pattern.text for pattern in declaration.patterns] == patterns
    assert len(declaration.problems) == problems


def test_a_note_has_two_hundred_patterns_and_the_rest_is_reported():
    declaration = parse_declaration(ROOT, [f"Projects/{number}" for number in range(10_000)])

    assert len(declaration.patterns) == MAX_PATTERNS
    assert declaration.problems == (
        "Only the first 200 patterns of a note count; 9,800 more are ignored.",
    )


def test_a_problem_shows_a_hostile_pattern_short_and_clean():
    (problem,) = parse_declaration(ROOT, ["\x1b[31m" + "x" * 5_000]).problems

    assert problem.startswith('"?[31mxxx')
    assert len(problem) < 150


@given(
    st.text(alphabet="ab.*?/~!#@{}[]\\ é\x00", max_size=24),
    st.sampled_from([ROOT, "a/AGENTS.md", "a/b/c.md"]),
)
def test_any_text_is_a_pattern_inside_the_vault_or_a_sentence(text, watcher):
    declaration = parse_declaration(watcher, text)

    assert len(declaration.patterns) + len(declaration.problems) == 1
    for pattern in declaration.patterns:
        names = [
            segment.text if isinstance(segment, SegmentGlob) else segment
            for segment in pattern.segments
        ]
        assert not {"", ".", ".."} & set(names)
        assert not any("/" in name or "\x00" in name for name in names)
        assert pattern.context or names
