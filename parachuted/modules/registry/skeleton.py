"""A new module that works at once: a route, a tool, a listener, an agent's prompt and a test."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from parachuted.access.paths import is_control
from parachuted.errors import ModuleFailedError
from parachuted.events import CORE
from parachuted.modules.checks import NAME

_TEMPLATES = Path(__file__).with_name("skeleton_files")


def new_module(folder: Path, name: str) -> list[Path]:
    """Its files in `folder`. Raises ModuleFailedError for a name or folder that is taken."""
    if not NAME.fullmatch(name) or name in CORE:
        raise ModuleFailedError(
            f"{name[:80]!r} is not a name for a module: use small letters, digits and dashes, such "
            "as my-module, and no word that begins the daemon's own events"
        )
    if folder.exists() and any(folder.iterdir()):
        raise ModuleFailedError(
            f"{folder} is there already, and not empty: choose another name or place"
        )
    title = " ".join(word.capitalize() for word in name.split("-") if word)
    word = title.replace(" ", "")
    values = {
        "name": name,
        "title": title,
        # `Modules/` holds code, and no module writes there
        "folder": f"{word}Notes" if is_control(word) else word,
        "cls": word if re.fullmatch(".+Module", word) else f"{word}Module",
    }
    templates = {
        "manifest.yaml": "manifest.yaml",
        "module.py": "module.py.txt",
        "prompts/helper.md": "helper.md",
        "CLAUDE.md": "CLAUDE.md",
        f"tests/test_{name.replace('-', '_')}.py": "test.py.txt",
    }
    for path, template in templates.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        text = Template((_TEMPLATES / template).read_text("utf-8"))
        file.write_text(text.substitute(values), "utf-8")
    return [folder / path for path in templates]
