"""Copies: names beside the note for texts that cannot stay in its place."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime

import pytest

from parachuted.vault import swap
from parachuted.vault.swap import copy_names, put_aside

NOW = datetime(2026, 11, 21, 23, 15, 2, tzinfo=UTC)
MARK = " (Conflicted copy parachute 20261121231502"


def first(name: str, count: int = 1) -> list[str]:
    return list(itertools.islice(copy_names(name, NOW), count))


def test_a_copy_is_named_after_its_note_then_numbered():
    assert first("plan.md", 3) == [f"plan{MARK}).md", f"plan{MARK} 2).md", f"plan{MARK} 3).md"]
    assert first("no suffix")[0] == f"no suffix{MARK})"
    assert first("x" * 300 + ".md")[0].endswith(").md")
    assert first("a." + "x" * 250)[0].endswith(")")  # which is no suffix


@pytest.mark.parametrize(
    "name",
    [
        "x" * 252 + ".md",
        "\u00e9" * 126 + ".md",
        "a." + "x" * 250,
        os.fsdecode(b"\xe9" * 250 + b".md"),
    ],
)
def test_long_names_are_cut_to_fit_and_stay_whole_characters(name):
    for copy in first(name, 12):
        assert 240 < len(os.fsencode(copy)) <= 255
        assert os.fsdecode(os.fsencode(copy)) == copy
        assert MARK in copy


def test_a_text_is_put_under_the_first_free_name(vault, folder):
    (vault / first("plan.md")[0]).write_text("taken")
    (vault / "temporary").write_text("aside")

    assert put_aside(folder, "temporary", "plan.md", NOW) == first("plan.md", 2)[1]
    assert [(vault / name).read_text() for name in first("plan.md", 2)] == ["taken", "aside"]
    assert not (vault / "temporary").exists()


def test_where_no_name_is_free_it_stays_where_it_is(vault, folder, monkeypatch):
    monkeypatch.setattr(swap, "_MOST", 5)
    for name in copy_names("plan.md", NOW):
        (vault / name).touch()
    (vault / "temporary").write_text("aside")
    with pytest.raises(FileExistsError):
        put_aside(folder, "temporary", "plan.md", NOW)
    assert (vault / "temporary").read_text() == "aside"
