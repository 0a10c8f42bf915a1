"""A caller that is limited to some paths: its answers are those of a vault that holds only what it
may read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from parachuted.bundled import bundled_folder
from parachuted.errors import ActRefusedError, EditRefusedError, ParachuteError
from parachuted.modules import Response
from parachuted.testing import ModuleHarness, running_module

PEOPLE = "Brain/entities/people"
OPEN = ("Brain/entities/people/open-*.md", "Brain/entities/recipes/*.md", "Notes/open/**")
SEEN = {
    f"{PEOPLE}/open-kim.md": "---\npara_id: para:brain:kimkimkimkim\ntype: person\n---\n# Kim\n\n"
    "Grows beans.\n\n## Relationships\n\n- [[bo]] - Secret partner\n",
    f"{PEOPLE}/open-lea.md": "# Lea\n\nGrows beans and more beans, and a few beans.\n",
    f"{PEOPLE}/open-mia.md": "# Mia\n\nFriend of [[bo]] and [[open-lea]].\n",
    "Brain/entities/recipes/soup.md": "# Soup\n\nBeans, water.\n",
    "Notes/open/day.md": "Beans at noon, with [[open-kim]].\n",
}
HIDDEN = {
    f"{PEOPLE}/bo.md": "---\npara_id: para:brain:bobobobobobo\n---\n# Bo\n\nBeans, beans, beans: "
    "a bean is a bean.\n\n## Relationships\n\n- [[open-lea]] - Hidden friend\n",
    f"{PEOPLE}/kim.md": "---\npara_id: para:brain:kimkimkimkim\n---\n# Kim\n\nAlso Kim. [[bo]]\n",
    f"{PEOPLE}/leah.md": "# Lea\n\n[[open-kim]] [[open-lea]]\n",
    f"{PEOPLE}/broken.md": "---\na: [\n---\n# Broken\n",
    "Brain/types.yaml": "types:\n  person: {folder: people}\n  recipe: {folder: recipes}\n",
    "Notes/secret.md": "Beans, beans and beans with [[open-kim]] and Lea.\n",
}
QUESTIONS: Mapping[str, tuple[str, str, dict[str, str]]] = {
    "search by words": ("GET", "/search", {"q": "beans", "limit": "1"}),
    "search by name": ("GET", "/search", {"q": "Lea", "limit": "1"}),
    "search for nothing": ("GET", "/search", {"limit": "2"}),
    "search for one that is hidden": ("GET", "/search", {"q": "Bo"}),
    "resolve a name that two have": ("GET", "/resolve", {"q": "Lea"}),
    "resolve an id that two have": ("GET", "/resolve", {"q": "kimkimkimkim"}),
    "resolve a name that is hidden": ("GET", "/resolve", {"q": "Bo"}),
    "resolve nearly a name": ("GET", "/resolve", {"q": "Leaa"}),
    "recall": ("GET", "/recall", {"query": "who has beans?", "num_results": "2"}),
    "recall with reasons": ("GET", "/recall", {"query": "beans, Bo, and Kim", "explain": "true"}),
    "recall of what is hidden": ("GET", "/recall", {"query": "the hidden friend"}),
    "walk in steps": ("GET", "/traverse", {"entity": "open-kim", "depth": "3"}),
    "walk over links in": ("GET", "/traverse", {"entity": "open-lea", "direction": "in"}),
    "who links to it": ("GET", "/backlinks", {"entity": "open-kim"}),
    "the graph": ("GET", "/graph", {"limit": "2"}),
    "the graph around one": ("GET", "/graph", {"around": "open-lea"}),
    "the context": ("GET", "/context", {"entity": "open-kim"}),
    "the facts": ("GET", "/facts", {"entity": "kimkimkimkim"}),
    "all people": ("GET", "/entities/person", {"limit": "1"}),
    "all of any type": ("GET", "/entities", {"limit": "2"}),
    "all that are called so": ("GET", "/entities", {"q": "lea"}),
    "which may be the same": ("GET", "/twins", {}),
    "which may be the same as one": ("GET", "/twins", {"entity": "open-lea"}),
    "all recipes": ("GET", "/entities/recipe", {}),
    "the soup": ("GET", "/entities/by_id", {"id": "soup"}),
    "the types": ("GET", "/types", {}),
    "what is wrong": ("GET", "/problems", {}),
    "the searches": ("GET", "/queries", {}),
}


@asynccontextmanager
async def brain(vault: Path, *files: Mapping[str, str]) -> AsyncIterator[ModuleHarness]:
    for path, text in [pair for group in files for pair in group.items()]:
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    async with running_module(bundled_folder("modules") / "brain", vault=vault) as module:
        yield module


async def both(
    tmp_path: Path, ask: Callable[[ModuleHarness], Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is answered by a vault with hidden files, and by one without any."""
    async with brain(tmp_path / "whole", SEEN, HIDDEN) as module:
        whole = await ask(module)
    async with brain(tmp_path / "alone", SEEN) as module:
        alone = await ask(module)
    return whole, alone


async def test_each_answer_is_that_of_a_vault_without_the_hidden_files(tmp_path: Path):
    async def ask(module: ModuleHarness) -> dict[str, Any]:
        found = {
            name: await module.with_key("k", paths=OPEN).request(method, path, query=query)
            for name, (method, path, query) in QUESTIONS.items()
        }
        text = "Kim met Bo, Lea and Leah, ate soup and saw [[bo]] and [[open-mia]]."
        body = {"text": text}
        found["suggest"] = await module.with_key("k", paths=OPEN).request(
            "POST", "/suggest", body=body
        )
        return found

    whole, alone = await both(tmp_path, ask)
    for name in whole:
        assert whole[name] == alone[name], name
    assert len(alone["recall"]["results"]) == 2
    assert alone["search by words"]["count"] == 1
    assert alone["resolve a name that two have"]["match"]["name"] == "Lea"


async def test_errors_and_changes_are_those_of_a_vault_without_the_hidden_files(tmp_path: Path):
    async def ask(module: ModuleHarness) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def act(name: str, method: str, path: str, body: dict[str, object]) -> None:
            try:
                answer = await module.with_key("k", paths=OPEN).request(method, path, body=body)
                found[name] = answer.body if isinstance(answer, Response) else answer
            except ParachuteError as error:
                found[name] = f"{type(error).__name__}: {error}"

        await act("a type that is there", "POST", "/types", {"name": "recipe"})
        await act("a type that is not", "POST", "/types", {"name": "plant"})
        await act("a type to go", "DELETE", "/types/person", {})
        await act("another type to go", "DELETE", "/types/recipe", {})
        person = {"entity_type": "person"}
        await act("one by a hidden name", "POST", "/entities", {**person, "data": {"name": "Bo"}})
        await act("one of a type", "POST", "/entities", {"entity_type": "recipe", "data": {}})
        for para_id in ("bo", "bobobobobobo", "leah"):
            body: dict[str, object] = {"path": "open-mia", "para_id": para_id}
            await act(f"a link to {para_id}", "POST", "/link", body)
            await act(f"merge {para_id}", "POST", "/merge", {"keep": "open-mia", "other": para_id})
        body = {"path": "open-lea", "para_id": "open-mia", "label": "Friend"}
        await act("a link", "POST", "/link", body)
        body = {"keep": "open-lea", "other": "open-kim"}
        merged = await module.with_key("k", paths=OPEN).request("POST", "/merge", body=body)
        assert isinstance(merged, dict)
        found["a merge"] = merged["notes"]
        return found

    whole, alone = await both(tmp_path, ask)
    for name in whole:
        assert whole[name] == alone[name], name
    assert whole["a merge"] == ["Notes/open/day.md"]
    assert "recipe" not in str(whole["a type that is there"])


async def test_what_one_hidden_caller_changes_is_not_a_loss_for_others(tmp_path: Path):
    """A caller that may write the types, and read few entities, is not the one to read all."""
    limited = (*OPEN, "Brain/types.yaml")
    async with brain(tmp_path, SEEN, HIDDEN) as module:
        await module.with_key("k", paths=limited).request("POST", "/types", body={"name": "plant"})
        with pytest.raises(EditRefusedError, match="There is a type plant already"):
            await module.with_key("k", paths=limited).request(
                "POST", "/types", body={"name": "plant"}
            )
        await module.event("file.modified", path="Brain/types.yaml")

        found = await module.request("GET", "/search", query={"limit": "50"})
        assert {"Bo", "Kim", "Lea", "Mia", "Soup"} <= {one["name"] for one in found["results"]}
        assert "plant" in {one["name"] for one in await module.request("GET", "/types")}
        with pytest.raises(ActRefusedError):
            await module.with_key("k", paths=OPEN).request("POST", "/types", body={"name": "plant"})


async def test_a_limited_view_follows_the_files(tmp_path: Path):
    query = {"q": "Nina"}
    async with brain(tmp_path, SEEN, HIDDEN) as module:
        assert (await module.with_key("k", paths=OPEN).request("GET", "/search", query=query))[
            "count"
        ] == 0
        for name in ("open-nina.md", "nina.md"):
            (tmp_path / PEOPLE / name).write_text("# Nina\n\nSings.\n")
            await module.event("file.created", path=f"{PEOPLE}/{name}")
        found = await module.with_key("k", paths=OPEN).request("GET", "/search", query=query)
        assert [one["path"] for one in found["results"]] == [f"{PEOPLE}/open-nina.md"]
        sings = {"query": "who sings?"}
        found = await module.with_key("k", paths=OPEN).request("GET", "/recall", query=sings)
        assert [one["path"] for one in found["results"] if one["is_match"]] == [
            f"{PEOPLE}/open-nina.md"
        ]
        (tmp_path / PEOPLE / "open-nina.md").unlink()
        await module.event("file.deleted", path=f"{PEOPLE}/open-nina.md")
        assert (await module.with_key("k", paths=OPEN).request("GET", "/search", query=query))[
            "count"
        ] == 0
        assert (await module.request("GET", "/search", query=query))["count"] == 1


async def test_types_that_are_hidden_mean_nothing_to_the_caller(tmp_path: Path):
    """The type recipe stands in a file that the caller may not read."""
    async with brain(tmp_path, SEEN, HIDDEN) as module:
        soup = await module.request("GET", "/entities/by_id", query={"id": "soup"})
        assert soup["@type"] == "recipe"
        soup = await module.with_key("k", paths=OPEN).request(
            "GET", "/entities/by_id", query={"id": "soup"}
        )
        assert soup["@type"] == ""
