"""Vault reading: what a module reads and finds is what its permissions name."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from parachuted.errors import (
    ActRefusedError,
    NotFoundError,
    PathRefusedError,
    StorageFailedError,
)
from tests.modules.module_rig import ModuleRig

HIDDEN = "# Secret\n\nthe word is heliotrope\n"


@pytest.fixture
def module_rig(tmp_path) -> Iterator[ModuleRig]:
    module_rig = ModuleRig(tmp_path)
    module_rig.save("Daily/monday.md", "# Monday\n\nbeans\n\n## Log\n\n- sown\n")
    module_rig.save("Private/secret.md", HIDDEN)
    yield module_rig
    module_rig.close()


@pytest.fixture
def daily(module_rig):
    """A module that may read and write below Daily, as the manifest of the specification's example
    says.
    """
    return module_rig.bounded(read=["Daily/**"], write=["Daily/**"])


async def test_what_the_permissions_name_is_read_and_nothing_else(daily):
    assert (await daily.read("Daily/monday.md")).startswith("# Monday")
    assert (
        await daily.exists("Daily/monday.md"),
        await daily.exists("Private/secret.md"),
        await daily.exists("Daily/no.md"),
    ) == (
        True,
        False,
        False,
    )
    with pytest.raises(
        ActRefusedError,
        match=r"the module daily may not read Private/secret\.md: permissions\.read does not name "
        r"it",
    ):
        await daily.read("Private/secret.md")
    with pytest.raises(NotFoundError):
        await daily.read("Daily/no.md")


@pytest.mark.parametrize(
    "path", ["private/secret.md", "Private/none.md", "DAILY/monday.md", "Dailyx/a.md", "Daily"]
)
async def test_whether_something_is_there_does_not_show_in_a_refusal(daily, path):
    with pytest.raises(ActRefusedError, match="does not name it"):
        await daily.read(path)


async def test_settings_are_hidden_from_reading_too_but_notes_of_agents_are_not(module_rig):
    vault = module_rig.bounded(read=["**"])
    module_rig.save(".parachute/audit/today.jsonl", "{}")
    module_rig.save("Daily/.agents/reflect.md", "# Reflect\n")

    with pytest.raises(PathRefusedError, match="is hidden"):
        await vault.read(".parachute/audit/today.jsonl")
    assert await vault.read("Daily/.agents/reflect.md") == "# Reflect\n"
    assert await vault.list() == [
        "Daily/.agents/reflect.md",
        "Daily/monday.md",
        "Private/secret.md",
    ]


async def test_lists_and_searches_hold_only_what_may_be_read(module_rig, daily):
    module_rig.save("Daily/sub/tuesday.md", "# Tuesday\n\nheliotrope in bloom\n")
    module_rig.library.settled()

    assert await daily.list() == ["Daily/monday.md", "Daily/sub/tuesday.md"]
    assert await daily.list("Daily/*.md") == ["Daily/monday.md"]
    assert await daily.list("Daily/sub/") == ["Daily/sub/tuesday.md"]
    assert await daily.list("Private/**") == []
    hits = await daily.search("heliotrope")
    assert [(hit.path, hit.title, "<mark>" in hit.snippet) for hit in hits] == [
        ("Daily/sub/tuesday.md", "Tuesday", True)
    ]
    assert [hit.path for hit in await module_rig.bounded(read=["**"]).search("heliotrope", 1)] != []
    with pytest.raises(PathRefusedError):
        await daily.list("../**")
    with pytest.raises(ActRefusedError, match="write what to look for"):
        await daily.search(" ")


async def test_a_device_or_a_pipe_is_not_a_note_and_keeps_no_one_waiting(module_rig, daily):
    os.mkfifo(module_rig.vault / "Daily/pipe.md")
    with pytest.raises((PathRefusedError, StorageFailedError)):
        await daily.read("Daily/pipe.md")


async def test_which_of_some_paths_may_be_read_is_said_without_a_look_at_any(daily):
    paths = ["Private/secret.md", "Daily/monday.md", "Daily/none.md"]

    assert await daily.readable(paths) == ["Daily/monday.md", "Daily/none.md"]
    assert await daily.scope() == ""
