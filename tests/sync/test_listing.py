from __future__ import annotations

import time

import pytest

from parachuted.keys import AccessGrant, PathGlob
from parachuted.sync import ListedFile, ListingQuery, list_files
from parachuted.vault import IndexEntry, VaultIndex

ALL = AccessGrant(alternatives=None)
SECOND = 10**9


def index_of(*paths: str) -> VaultIndex:
    """The file at place n changed in second n."""
    index = VaultIndex()
    for number, path in enumerate(paths, 1):
        digest = "d" if path.endswith(".md") else None
        index.set(path, IndexEntry(number * SECOND, number * SECOND, number, number, digest))
    return index


async def listed(
    index: VaultIndex, *, access: AccessGrant = ALL, **asked: object
) -> list[ListedFile]:
    query = {"root": "", "pattern": "*.md", "include_binary": False, **asked}
    return await list_files(index, ListingQuery(**query), access.sees)


@pytest.mark.parametrize(
    ("asked", "paths"),
    [
        ({}, ["d.md", "Daily/a.md", "Daily/deep/b.md", "Dailyx/c.md"]),
        ({"root": "Daily"}, ["a.md", "deep/b.md"]),
        ({"root": "Daily", "date": "deep"}, ["deep/b.md"]),
        ({"root": "Daily", "include_binary": True, "pattern": "none"}, ["p.png"]),
        ({"since_ns": 3 * SECOND}, ["d.md", "Dailyx/c.md"]),
        ({"root": "Nowhere"}, []),
        ({"access": AccessGrant(alternatives=(((PathGlob("Daily/a*"),),),))}, ["Daily/a.md"]),
    ],
)
async def test_a_listing_has_the_files_that_it_is_asked_for(asked, paths):
    index = index_of("Daily/a.md", "Daily/deep/b.md", "Dailyx/c.md", "d.md", "Daily/p.png")

    assert [file.path for file in await listed(index, **asked)] == paths


async def test_a_file_read_in_the_moment_of_its_change_counts_as_changed():
    index = VaultIndex()
    index.set("moved-in.md", IndexEntry(SECOND, 0, 1, 1, "d"))

    assert len(await listed(index, since_ns=time.time_ns())) == 1


async def test_the_state_of_a_file_changes_with_it():
    index = index_of("a.png")
    before = (await listed(index, pattern="*"))[0].state
    index.set("a.png", IndexEntry(7 * SECOND, SECOND, 1, 1, None))

    assert (await listed(index, pattern="*"))[0].state != before


@pytest.mark.parametrize("name", ["..\\..\\x.md", "C:x.md", "b\udcffd.md"])
async def test_names_that_lead_elsewhere_on_another_system_are_not_sent(name):
    assert await listed(index_of(name)) == []


@pytest.mark.parametrize("pattern", ["*" * 200, "*a" * 100, "[" * 200, "*?" * 100, "[!a]*" * 40])
async def test_no_pattern_takes_long(pattern):
    index = index_of(*(f"{'a' * 200}{number}.md" for number in range(50)))
    began = time.process_time()
    await listed(index, pattern=pattern)

    assert time.process_time() - began < 5
