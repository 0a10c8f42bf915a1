from __future__ import annotations

import pytest

from parachuted.bubbling.patterns import PatternPart, parse_declaration
from parachuted.bubbling.pending_changes import changed_units, matters, meaning
from parachuted.bubbling.trie import WatchMatch, WatchTrie


def match_for(*texts):
    trie = WatchTrie()
    trie.add(parse_declaration("AGENTS.md", texts))
    (match,) = trie.watchers_of("x/AGENTS.md", is_context_file=True)
    return match


UNITS = (
    "@status",
    "(opening text)",
    "Atlas",
    "Atlas > Facts",
    "Atlas > Facts > Sources",
    "Atlas > Facts (2)",
    "Atlas > Facts and figures",
)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["x"], UNITS),
        (["x@status"], ["@status"]),
        (["x@Status"], ["@status"]),
        (["x@watch"], []),
        (["x#Facts"], ["Atlas > Facts", "Atlas > Facts > Sources", "Atlas > Facts (2)"]),
        (["x#facts"], ["Atlas > Facts", "Atlas > Facts > Sources", "Atlas > Facts (2)"]),
        (["x#Sources"], ["Atlas > Facts > Sources"]),
        (["x#Facts > Sources"], ["Atlas > Facts > Sources"]),
        (["x/AGENTS.md## Sources"], ["Atlas > Facts > Sources"]),
        (["x#Atlas > Sources"], []),
        (
            ["x#Atlas"],
            [
                "Atlas",
                "Atlas > Facts",
                "Atlas > Facts > Sources",
                "Atlas > Facts (2)",
                "Atlas > Facts and figures",
            ],
        ),
        (["x#Sources", "x@status"], ["@status", "Atlas > Facts > Sources"]),
        (["x#Sources", "x"], UNITS),
        (["x", "!x#Atlas", "!x@status"], ["(opening text)"]),
        (["x#Facts", "!x#Sources"], ["Atlas > Facts", "Atlas > Facts (2)"]),
        (["x#History"], []),
    ],
)
def test_a_narrowed_pattern_is_about_its_part_only(texts, expected):
    assert matters(UNITS, match_for(*texts)) == tuple(expected)


@pytest.mark.parametrize("unit", ["(frontmatter)", "(whole note)"])
def test_a_change_that_cannot_be_placed_matters_to_everybody(unit):
    assert matters((unit,), match_for("x#Facts")) == (unit,)
    assert matters((unit,), match_for("x", "!x#Facts", f"!x#{unit}")) == (unit,)


def test_keys_and_headings_are_found_in_any_case_and_composition():
    assert matters(("@Status", "Cafe\u0301"), match_for("x@status", "x#CAFÉ")) == (
        "@Status",
        "Cafe\u0301",
    )


def test_a_section_below_an_untitled_heading_is_found():
    (unit,) = changed_units(meaning(b"#\n## Facts\n"), meaning(b"#\n## Facts\n- new\n"))

    assert matters((unit,), match_for("x#Facts")) == ("(untitled) > Facts",)


def test_titles_that_hold_signs_of_ours_are_found_by_name():
    units = tuple(meaning(b"# @home\n# (whole note)\n# a > b\n# Phase (2)\n"))

    for title, unit in zip(["@home", "(whole note)", "a > b", "Phase (2)"], units, strict=True):
        match = WatchMatch(
            watcher="AGENTS.md", patterns=(), narrowings=(PatternPart(mark="#", name=title),)
        )
        assert matters(units, match) == (unit,)
