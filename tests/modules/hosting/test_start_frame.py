"""What the daemon says of a module arrives in its process as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from parachuted.modules.hosting.isolation_rules import IsolationRules
from parachuted.modules.hosting.start_frame import StartFrame
from tests.modules.small_modules import approve, write_module

WALLS = IsolationRules(
    landlock=True, seccomp=True, readable=(Path("/usr"),), memory=1, most_open=2, parent=3
)


def test_a_module_and_its_walls_arrive_as_they_were(tmp_path):
    approved = approve(
        write_module(tmp_path / "daily", "x = 1"),
        trust="untrusted",
        config={"a": "1"},
        import_paths=(tmp_path / "venv",),
    )
    approved = replace(approved, overrides={"writer": {"paths": ["Daily/"]}})

    there = StartFrame.model_validate(StartFrame.of(approved, WALLS))

    assert there.approved() == approved
    assert there.rules == WALLS


def test_it_says_nothing_but_that(tmp_path):
    approved = approve(write_module(tmp_path / "daily", "x = 1"))

    with pytest.raises(ValidationError):
        StartFrame.model_validate({**StartFrame.of(approved, WALLS), "more": 1})
