"""Prompts: a person's words to a module's agents are kept in the home, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.errors import StorageFailedError
from parachuted.modules.registry.prompts import ModulePrompts, default_prompt
from tests.modules.small_modules import approve, write_module

pytestmark = pytest.mark.usefixtures("each_disk")


def test_words_are_kept_replaced_and_forgotten(tmp_path: Path):
    prompts = ModulePrompts(tmp_path)

    assert prompts.get("garden") is None
    prompts.put("garden", "Be brief.")
    prompts.put("garden", "Be briefer: ü")
    assert (ModulePrompts(tmp_path).get("garden"), prompts.get("other")) == ("Be briefer: ü", None)
    assert (tmp_path / "modules/garden/prompt.md").stat().st_mode & 0o077 == 0
    prompts.put("garden", None)
    prompts.put("garden", None)
    assert prompts.get("garden") is None


def test_a_disk_that_refuses_is_reported(tmp_path: Path):
    (tmp_path / "modules").write_text("a file where a folder should be")
    with pytest.raises(StorageFailedError, match="prompt of garden"):
        ModulePrompts(tmp_path).put("garden", "Be brief.")


def test_without_agents_there_is_no_usual_prompt(tmp_path: Path):
    assert default_prompt(approve(write_module(tmp_path / "m", "pass"))) == ""
