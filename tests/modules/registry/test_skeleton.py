"""Skeleton: a new module works as it is: it goes together, and it does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.access.grant import build_grant
from parachuted.errors import ModuleFailedError
from parachuted.keys import EVERYWHERE
from parachuted.modules.registry.manifest import read_manifest
from parachuted.modules.registry.skeleton import new_module
from parachuted.testing import running_module

NAMES = ["shopping-list", "a", "a-module", "modules", "x2-", "class", "my--list"]


def test_it_has_all_that_a_module_needs_and_overwrites_nothing(tmp_path: Path):
    folder = tmp_path / "Modules/shopping-list"
    made = new_module(folder, "shopping-list")

    assert [path.relative_to(folder).as_posix() for path in made] == [
        *("manifest.yaml", "module.py", "prompts/helper.md", "CLAUDE.md"),
        "tests/test_shopping_list.py",
    ]
    assert not any("$" in path.read_text() for path in made), "nothing is left to fill in"
    assert read_manifest((folder / "manifest.yaml").read_bytes()).name == "shopping-list"
    (folder / "module.py").write_text("mine")
    with pytest.raises(ModuleFailedError, match="there already"):
        new_module(folder, "a")
    assert (folder / "module.py").read_text() == "mine"


@pytest.mark.parametrize("name", NAMES)
async def test_whatever_its_name_it_goes_together_and_works(tmp_path: Path, name: str):
    folder, vault = tmp_path / name, tmp_path / "vault"
    vault.mkdir()
    new_module(folder, name)
    async with running_module(
        folder, vault=vault, answers=lambda agent, _prompt: f"{agent} says yes"
    ) as module:
        assert await module.request("GET", "/items") == {"items": []}
        for text in ("Buy seeds", "Call Kim"):
            await module.request("POST", "/items", body={"text": text})

        shown = await module.request("GET", "/items", query={"limit": "1"})
        assert shown == {"items": ["Buy seeds"]}
        assert await module.tool(f"{name}-search", query="kim") == ["Call Kim"]
        answer = await module.request("POST", "/ask", body={"question": "What?"})
        assert answer == {"answer": "helper says yes"}
        assert module.asked == [("helper", "What?")]
        (note,) = {data["path"] for _event, data in module.published}
        assert module.published[0] == (f"{name}.item.added", {"path": note, "text": "Buy seeds"})
        for path in (note, "other.md"):
            await module.event("file.modified", path=path)
        assert await module.state.get("changes") == 1
    helper = build_grant(
        read_manifest((folder / "manifest.yaml").read_bytes()).agents["helper"],
        agent="helper",
        entry="chat",
        bounds_read=EVERYWHERE,
        bounds_write=EVERYWHERE,
    )
    assert helper.reads.sees(note)


@pytest.mark.parametrize("name", ["", "A", "../x", "a/b", "a b", "1a", "a" * 65, "module", "file"])
def test_a_name_that_is_none_makes_nothing(tmp_path: Path, name: str):
    with pytest.raises(ModuleFailedError, match="not a name for a module"):
        new_module(tmp_path / "new", name)

    assert list(tmp_path.iterdir()) == []
