"""Fields: a value is of its kind, or it is told to no one."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from parachuted.access.events import (
    HOLDS,
    PATH_KINDS,
    FieldKind,
    fits,
    paths_in,
    schema_of,
    without_words,
)

GOOD = {
    FieldKind.PATH: ["Daily/today.md", "a", "Über/ü.md"],
    FieldKind.PATHS: [[], ["a.md", "b/c.md"], ("a.md",)],
    FieldKind.TEXTS: [{}, {"a.md": ["one", "two"]}, {"a.md": []}],
    FieldKind.ID: [
        "r-20260106-1",
        "module:daily",
        "sha256:55",
        "2026-01-06T12:00:02+00:00",
        "daily.entry.created",
    ],
    FieldKind.IDS: [[], ["c1", "c2"]],
    FieldKind.NUMBER: [0, -1, 0.5],
    FieldKind.FLAG: [True, False],
}
BAD = {
    FieldKind.PATH: [
        "",
        "/etc/passwd",
        "../a",
        "a/../b",
        "a//b",
        "a/",
        "a\\..\\b",
        "a\0",
        7,
        ["a.md"],
        {"a.md": 1},
    ],
    FieldKind.PATHS: ["a.md", {"a.md": 1}, [["a.md"]], ["a.md", 1], ["../a.md"]],
    FieldKind.TEXTS: [
        ["a.md"],
        {"a.md": "words"},
        {"a.md": [["words"]]},
        {"a.md": {"b.md": []}},
        {"../a.md": []},
        {1: []},
    ],
    FieldKind.ID: ["", "two words", "Private/diary.md", "a\\b", "x" * 201, "a\nb", 7, ["x"], {}],
    FieldKind.IDS: ["c1", ["two words"], [["c1"]], {"c1": 1}],
    FieldKind.NUMBER: ["1", True, [1]],
    FieldKind.FLAG: [1, "true", []],
}


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in GOOD.items() for value in [*values, None]]
)
def test_what_a_field_holds_fits(kind, value):
    assert fits(kind, value)


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in BAD.items() for value in values]
)
def test_nothing_else_does(kind, value):
    assert not fits(kind, value)
    if kind in PATH_KINDS:
        with pytest.raises(ValueError, match=kind):
            paths_in(kind, value)


def test_words_may_be_anything():
    for kind in (FieldKind.TEXT, FieldKind.FREE, FieldKind.MESSAGE):
        assert all(fits(kind, value) for value in ("words", ["words"], {"a": {"b": []}}, 7))


def test_paths_are_found_in_each_kind_that_holds_them():
    assert paths_in(FieldKind.PATH, "a.md") == ["a.md"]
    assert paths_in(FieldKind.PATHS, ("a.md", "b.md")) == ["a.md", "b.md"]
    assert paths_in(FieldKind.TEXTS, {"a.md": ["x"]}) == ["a.md"]
    assert paths_in(FieldKind.PATH, None) == paths_in(FieldKind.FREE, "a.md") == []


def test_what_is_left_out_leaves_its_type():
    assert [without_words(value) for value in ("words", ["x"], ("x",), {"a": 1}, 7, None)] == [
        "",
        [],
        [],
        {},
        None,
        None,
    ]


def test_each_kind_is_explained_where_a_value_is_refused():
    assert set(HOLDS) == set(FieldKind)


@pytest.mark.parametrize("kind", FieldKind)
def test_the_schema_of_a_kind_takes_all_that_fits_it(kind):
    schema = schema_of(kind)

    Draft202012Validator.check_schema(schema)
    check = Draft202012Validator(schema)
    for value in [*GOOD.get(kind, ["words", {"a": [1]}]), None]:
        check.validate(list(value) if isinstance(value, tuple) else value)
    if kind in GOOD:
        assert not check.is_valid(object() if kind is FieldKind.FLAG else {"a": {"b": 1}})
    assert HOLDS[kind] in schema["description"]
