"""Link setting: how the vault's editor writes links, as far as its settings say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

_LARGEST = 1 << 20


def link_setting(vault: Path) -> Literal["wiki", "markdown"] | None:
    """What Obsidian's settings in the vault say, which without a word means wikilinks; None where
    there are none. Blocks on the disk.
    """
    settings = vault / ".obsidian"
    if settings.is_symlink() or not settings.is_dir():
        return None
    try:
        with (settings / "app.json").open("rb") as file:
            told = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return "wiki"
    return "markdown" if isinstance(told, dict) and told.get("useMarkdownLinks") is True else "wiki"
