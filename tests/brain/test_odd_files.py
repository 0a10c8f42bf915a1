"""Anything at all may stand where Brain reads: it starts, and the good files beside it are read."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import pytest

from parachuted.errors import (
    EditRefusedError,
    ModuleFailedError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.testing import ModuleHarness
from parachuted.vault import printable
from tests.brain.brain_of import brain, write
from tests.odd_files import KINDS, ODD, changed, mistakes_in, put, put_names, state_of

TODAY = dt.datetime.now().astimezone().date().isoformat()
PLACES = (
    "Brain/types.yaml",
    "Brain/queries.json",
    "Brain/entities/people/odd.md",
    "Brain/odd.md",
    "Notes/odd.md",
    f"Daily/journals/{TODAY}.md",
    "Projects/odd/AGENTS.md",
)
KIM = "Brain/entities/people/kim.md"
GARDEN = "Brain/entities/projects/garden.md"
DAY = f"Daily/entries/{TODAY}.md"
GOOD = {
    KIM: "---\npara_id: para:brain:kimkimkimkim\ntype: person\n---\n"
    "# Kim Lee\n\nGrows heliotropes.\n",
    GARDEN: "---\nwork_path: Projects/odd\n---\n# Garden\n\n## Relationships\n- [[kim]] - Owner\n",
    "Notes/good.md": "# Heliotropes\n\nThey turn to the sun.\n",
}


async def check_good(brain: ModuleHarness) -> None:
    """The good files are listed and found, and a note that is saved is looked at in full."""
    match = (await brain.request("GET", "/resolve", query={"q": "kim lee"}))["match"]
    assert match["path"] == KIM
    people = await brain.request("GET", "/entities/person")
    assert "Kim Lee" in {person["name"] for person in people["results"]}
    everything = await brain.request("GET", "/entities", query={"limit": "100"})
    assert {"Kim Lee", "Garden"} <= {one["name"] for one in everything["results"]}
    assert "person" in {one["name"] for one in await brain.request("GET", "/types")}
    found = await brain.request("GET", "/recall", query={"query": "heliotropes sun"})
    assert {KIM, "Notes/good.md"} <= {one["path"] for one in found["results"]}
    assert await brain.request("GET", "/graph", query={"limit": "1000"})
    around = await brain.request("GET", "/traverse", query={"entity": GARDEN})
    assert "Kim Lee" in {one["name"] for one in around["results"]}
    assert await brain.tool("brain-context", entity=GARDEN)
    assert isinstance(await brain.request("GET", "/queries"), dict)
    assert isinstance(await brain.request("GET", "/twins"), dict)


async def ask_for_odd(brain: ModuleHarness) -> None:
    """Whatever reads the odd things answers, be it by 4xx."""
    for path in (*PLACES[2:5], "odd", "oddoddoddodd", "..."):
        for route, name in (
            ("/entities/by_id", "id"),
            ("/facts", "entity"),
            ("/context", "entity"),
            ("/traverse", "entity"),
            ("/backlinks", "entity"),
            ("/resolve", "q"),
            ("/search", "q"),
            ("/recall", "query"),
        ):
            try:
                await brain.request("GET", route, query={name: path})
            except (ModuleFailedError, StorageFailedError):
                raise
            except ParachuteError:
                continue


@pytest.mark.parametrize("odd", ODD)
async def test_brain_starts_with_it_everywhere_and_its_good_neighbours_are_read(
    tmp_path: Path, odd: str, caplog: pytest.LogCaptureFixture
):
    for path, text in GOOD.items():
        write(tmp_path, path, text)
    for path in PLACES:
        put(odd, tmp_path / path)
    before = {path: state_of(tmp_path / path) for path in PLACES}

    async with brain(tmp_path) as module:
        await check_good(module)
        assert isinstance(await module.doctor(), list)
        await ask_for_odd(module)
        for path in PLACES:
            for event in ("file.created", "file.modified", "file.deleted"):
                await module.event(event, path=path)
            await module.event("file.moved", path=path, **{"from": "Brain/gone.md"})
            resolved = {"id": "s1", "path": path, "source_agent": "module:daily"}
            await module.event("suggestion.resolved", **resolved, status="rejected")
        await check_good(module)
        assert module.problem is None
    assert mistakes_in(caplog) == []

    for path in PLACES:
        assert state_of(tmp_path / path) == before[path], path
    for path, text in GOOD.items():
        assert (tmp_path / path).read_text() == text


@pytest.mark.parametrize("odd", [kind for kind in KINDS if kind != "a folder"])
async def test_brain_starts_where_something_else_stands_for_each_of_its_folders(
    tmp_path: Path, odd: str, caplog: pytest.LogCaptureFixture
):
    write(tmp_path, "Notes/good.md", "# Heliotropes\n\nThey turn to the sun.\n")
    for folder in ("Brain", "Daily", "Projects"):
        put(odd, tmp_path / folder)
    async with brain(tmp_path) as module:
        await ask_for_odd(module)
        found = await module.request("GET", "/recall", query={"query": "heliotropes"})
        assert [one["path"] for one in found["results"]] == ["Notes/good.md"]
        assert isinstance(await module.doctor(), list)
    assert mistakes_in(caplog) == []


async def test_notes_of_any_name_keep_no_other_one_from_being_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    for path, text in GOOD.items():
        write(tmp_path, path, text)
    files = put_names(tmp_path / "Brain/entities/people") | put_names(tmp_path / "Notes")
    async with brain(tmp_path) as module:
        await check_good(module)
        for path in files:
            name = printable(os.fsdecode(path.removeprefix(os.fsencode(tmp_path) + b"/")))
            for event in ("file.created", "file.deleted"):
                await module.event(event, path=name)
        assert isinstance(await module.doctor(), list)
        await check_good(module)
    assert mistakes_in(caplog) == []
    assert changed(files) == []


async def test_types_that_cannot_be_read_are_the_default_ones_until_mended(
    tmp_path: Path,
):
    types = "Brain/types.yaml"
    put("a folder", tmp_path / types)
    async with brain(tmp_path) as module:
        assert types in {one.path for one in await module.doctor()}
        assert len(await module.request("GET", "/types")) == 6
        (tmp_path / types).rename(tmp_path / "Brain/old")
        write(tmp_path, types, f"types: {{a: {'[' * 200}{']' * 200}}}\n")
        await module.event("file.created", path=types)
        assert "levels deep" in str([one.problem for one in await module.doctor()])
        assert len(await module.request("GET", "/types")) == 6
        write(tmp_path, types, "types:\n  plant: {}\n")
        await module.event("file.modified", path=types)
        assert [one["name"] for one in await module.request("GET", "/types")] == ["plant"]


async def test_one_bad_search_hides_no_good_one_and_the_file_is_not_written(tmp_path: Path):
    good = {"id": "friends", "name": "Friends", "entity_type": "person", "filters": []}
    text = json.dumps({"queries": [{"name": 7}, good, [[]]]})
    write(tmp_path, "Brain/queries.json", text)
    async with brain(tmp_path) as module:
        assert await module.request("GET", "/queries") == {"queries": [good]}
        assert {one.path for one in await module.doctor()} == {"Brain/queries.json"}
        with pytest.raises(EditRefusedError, match="put it right first"):
            await module.request("POST", "/queries", body={**good, "id": ""})
    assert (tmp_path / "Brain/queries.json").read_text() == text
