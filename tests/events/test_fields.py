"""Fields of events: a value is of its kind, or it is not published."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from parachuted.events.fields import HOLDS, FieldKind, fits, schema_of

GOOD = {
    FieldKind.PATH: ["Daily/today.md", "a", "Über/ü.md"],
    FieldKind.PATHS: [[], ["a.md", "b/c.md"], ("a.md",)],
    FieldKind.TEXT: ["words", ["words"], {"a": {"b": []}}, 7],
    FieldKind.TEXTS: [{}, {"a.md": ["one", "two"]}, {"a.md": []}],
    FieldKind.ID: ["r-20260106-1", "module:daily", "2026-01-06T12:00:02+00:00"],
    FieldKind.IDS: [[], ["c1", "c2"]],
    FieldKind.NUMBER: [0, -1, 0.5],
    FieldKind.FLAG: [True, False],
}
BAD = {
    FieldKind.PATH: ["", "/etc/passwd", "../a", "a//b", "a/", "a\\..\\b", "a\0", 7, ["a.md"]],
    FieldKind.PATHS: ["a.md", {"a.md": 1}, [["a.md"]], ["a.md", 1], ["../a.md"]],
    FieldKind.TEXTS: [["a.md"], {"a.md": "words"}, {"a.md": [["words"]]}, {"../a.md": []}, {1: []}],
    FieldKind.ID: ["", "two words", "Private/diary.md", "a\\b", "x" * 201, "a\nb", 7, ["x"], {}],
    FieldKind.IDS: ["c1", ["two words"], [["c1"]], {"c1": 1}, ["c"] * 10_001],
    FieldKind.NUMBER: ["1", True, [1]],
    FieldKind.FLAG: [1, "true", []],
}


@pytest.mark.parametrize("kind", FieldKind)
def test_a_field_takes_what_is_of_its_kind_and_nothing_else(kind):
    check = Draft202012Validator(schema_of(kind))
    for value in [*GOOD[kind], None]:
        assert fits(kind, value), value
        check.validate(list(value) if isinstance(value, tuple) else value)
    for value in BAD.get(kind, ()):
        assert not fits(kind, value), value
    assert HOLDS[kind] in schema_of(kind)["description"]


def test_older_manifests_say_free_and_message_for_text():
    assert FieldKind("free") is FieldKind("message") is FieldKind.TEXT
    with pytest.raises(ValueError, match="secret"):
        FieldKind("secret")
