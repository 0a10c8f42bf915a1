"""How Obsidian's settings in a vault say that links are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.vault.links import link_setting


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (None, "wiki"),
        ("{}", "wiki"),
        ('{"useMarkdownLinks": true}', "markdown"),
        ("[", "wiki"),
        ("[1]", "wiki"),
    ],
)
def test_a_vault_of_obsidian_says_how_its_links_are_written(
    tmp_path: Path, settings: str | None, said: str
):
    (tmp_path / ".obsidian").mkdir()
    if settings is not None:
        (tmp_path / ".obsidian/app.json").write_text(settings)

    assert link_setting(tmp_path) == said


def test_a_folder_without_its_settings_says_nothing(tmp_path: Path):
    assert link_setting(tmp_path) is None
