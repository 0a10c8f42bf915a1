"""A new module that works at once: a route, a tool, a listener, an agent's prompt and a test."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from parachuted.access.paths import is_control
from parachuted.errors import ModuleFailedError
from parachuted.modules.registry.manifest import NAME

_MANIFEST = """\
# What this module is, and all that it may touch. A person reads this before any of its code runs.
name: $name
version: 0.1.0
description: Keeps a list, and finds what is on it
module: module.py

permissions:
  read: [$folder/]
  write: [$folder/]

# What its code offers agents, and the events that it hears: code that declares more is not loaded.
mcp_tools: [$name-search]
hooks: [file.modified]
publishes:
  $name.item.added: {path: path, text: text}

agents:
  helper:
    description: Answers questions about the list
    system_prompt: prompts/helper.md
    paths: [$folder/]
    capabilities: [read]
"""

_MODULE = '''\
"""$title: keeps a list in the vault, and finds what is on it."""

from parachuted.errors import NotFoundError
from parachuted.modules import Module, event, mcp_tool, route

NOTE = "$folder/list.md"


class $cls(Module):
    """All that it needs it is given: self.vault, self.state, self.log, self.publish, self.get_interface, self.run_agent."""

    @route("GET", "/items")
    async def list_items(self, limit: int = 50):
        """What is on the list."""
        return {"items": (await self.items())[:limit]}

    @route("POST", "/items")
    async def add_item(self, text: str):
        """Put something on the list, and tell everyone."""
        if not await self.vault.exists(NOTE):
            await self.vault.create(NOTE, "# $title\\n\\n## Items\\n")
        await self.vault.append(NOTE, "Items", f"- {text}")
        self.publish("$name.item.added", path=NOTE, text=text)
        return {"added": text}

    @route("POST", "/ask")
    async def answer(self, question: str):
        """Let an agent answer from the list."""
        return {"answer": await self.run_agent("helper", question)}

    @mcp_tool("$name-search")
    async def search(self, query: str):
        """Find what is on the list by a word."""
        return [item for item in await self.items() if query.lower() in item.lower()]

    @event("file.modified")
    async def on_file_modified(self, path: str):
        """Count how often the list was changed, by whomever."""
        if path == NOTE:
            await self.state.put("changes", await self.state.get("changes", 0) + 1)

    async def items(self) -> list[str]:
        try:
            lines = (await self.vault.read(NOTE)).splitlines()
        except NotFoundError:
            return []
        return [line.removeprefix("- ") for line in lines if line.startswith("- ")]
'''  # noqa: E501

_PROMPT = """\
You answer questions about the list in $folder/list.md. Read it first. Say so when it does not hold the answer.
"""  # noqa: E501

_CLAUDE = """\
# $title

A module of Parachute. `manifest.yaml` says what it is and may touch, `module.py` is the code, `prompts/` the instructions of its agents.

- Its public API is `parachuted.modules` and nothing else; the reference is modules/README.md of parachuted.
- Files of the vault are reached through `self.vault` alone. What `permissions` in `manifest.yaml` do not name, it refuses.
- Test it with `parachute modules test $name`. A change runs once it is approved: `parachute modules diff $name`, then `approve`.
"""  # noqa: E501

_TEST = '''\
"""The module alone: a real vault, its real permissions, no daemon. Run it with `parachute modules test $name`."""

import tempfile
import unittest
from pathlib import Path

from parachuted.testing import running_module

FOLDER = Path(__file__).resolve().parent.parent


class Test$cls(unittest.IsolatedAsyncioTestCase):
    async def test_what_is_added_is_found(self):
        with tempfile.TemporaryDirectory() as vault:
            async with running_module(FOLDER, vault=Path(vault)) as module:
                await module.request("POST", "/items", body={"text": "Buy seeds"})
                await module.request("POST", "/items", body={"text": "Call Kim"})

                self.assertEqual(await module.request("GET", "/items"), {"items": ["Buy seeds", "Call Kim"]})
                self.assertEqual(await module.tool("$name-search", query="kim"), ["Call Kim"])
                self.assertIn(("$name.item.added", {"path": "$folder/list.md", "text": "Call Kim"}), module.published)
                self.assertIn("- Call Kim", (Path(vault) / "$folder/list.md").read_text())

    async def test_a_change_by_anybody_is_counted(self):
        with tempfile.TemporaryDirectory() as vault:
            async with running_module(FOLDER, vault=Path(vault)) as module:
                await module.event("file.modified", path="$folder/list.md")

                self.assertEqual(await module.state.get("changes"), 1)


if __name__ == "__main__":
    unittest.main()
'''  # noqa: E501


def new_module(folder: Path, name: str) -> list[Path]:
    """Write a new module of that name into `folder`, and return its files.

    Raises ModuleFailedError for a name or folder that is taken.
    """
    if not NAME.fullmatch(name):
        raise ModuleFailedError(
            f"{name[:80]!r} is not a name for a module: use small letters, digits and dashes, such "
            "as my-module"
        )
    if folder.exists() and any(folder.iterdir()):
        raise ModuleFailedError(
            f"{folder} is there already, and not empty: choose another name or place"
        )
    words = name.split("-")
    title = " ".join(word.capitalize() for word in words if word)
    word = title.replace(" ", "")
    notes = (
        f"{word}Notes" if is_control(word) else word
    )  # `Modules/` holds code, and no module writes there
    values = {
        "name": name,
        "title": title,
        "folder": notes,
        "cls": word if re.fullmatch(".+Module", word) else f"{word}Module",
    }
    texts = {
        "manifest.yaml": _MANIFEST,
        "module.py": _MODULE,
        "prompts/helper.md": _PROMPT,
        "CLAUDE.md": _CLAUDE,
        f"tests/test_{name.replace('-', '_')}.py": _TEST,
    }
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(text).substitute(values), "utf-8")
    return [folder / path for path in texts]
