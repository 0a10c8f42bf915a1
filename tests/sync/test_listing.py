from __future__ import annotations

import asyncio
import time

import pytest

from parachuted.keys import AccessGrant, PathGlob
from parachuted.sync import ListingQuery, ListingRow, ListingView
from parachuted.vault import IndexEntry, VaultIndex

ALL = AccessGrant(alternatives=None)


def entry(number: int = 1, *, digest: str | None = "d", ctime_ns: int | None = None) -> IndexEntry:
    return IndexEntry(
        number * 10**9, number * 10**9 if ctime_ns is None else ctime_ns, number, number, digest
    )


def view(
    index: VaultIndex,
    *,
    access: AccessGrant = ALL,
    known=lambda _path, _entry: None,
    **asked: object,
) -> ListingView:
    given = {
        "root": "",
        "pattern": "*.md",
        "include_binary": False,
        "quick": False,
        "whose": access,
        **asked,
    }
    return ListingView(index, ListingQuery(**given), access, known)


def index_of(*paths: str) -> VaultIndex:
    index = VaultIndex()
    for number, path in enumerate(paths, 1):
        index.set(path, entry(number, digest=f"d{number}" if path.endswith(".md") else None))
    return index


async def rows(shown: ListingView) -> list[ListingRow]:
    await shown.refresh()
    return [row for part in shown.parts() for row in part.rows]


async def test_paths_are_relative_to_the_root_and_nothing_else_is_listed():
    index = index_of("Daily/a.md", "Daily/deep/er/b.md", "Dailyx/c.md", "d.md", "Daily/e.txt")

    assert [row.path for row in await rows(view(index, root="Daily"))] == ["a.md", "deep/er/b.md"]
    assert [row.path for row in await rows(view(index))] == [
        "d.md",
        "Daily/a.md",
        "Daily/deep/er/b.md",
        "Dailyx/c.md",
    ]


async def test_only_folders_that_changed_are_made_again():
    index = index_of("a/one.md", "b/two.md")
    shown = view(index)
    await shown.refresh()
    before = {id(part): part for part in shown.parts()}

    index.set("a/one.md", entry(9, digest="new"))
    index.set("c/three.md", entry(3, digest="d3"))
    index.drop_folder("nowhere")
    after = await rows(shown)

    assert [row.hash for row in after] == ["new", "d2", "d3"]
    assert len([part for part in shown.parts() if id(part) in before]) == 1


async def test_folders_that_are_gone_are_listed_no_more():
    index = index_of("a/one.md", "b/two.md")
    shown = view(index)
    await shown.refresh()
    index.drop_folder("a")

    assert [row.path for row in await rows(shown)] == ["b/two.md"]


async def test_since_leaves_out_folders_whose_files_are_all_older():
    index = index_of("a/one.md", "b/two.md", "c/three.md")
    shown = view(index)
    await shown.refresh()

    assert [part.rows[0].path for part in shown.parts(since_ns=2 * 10**9)] == [
        "b/two.md",
        "c/three.md",
    ]


async def test_a_change_read_in_its_moment_counts_from_its_listing():
    index = VaultIndex()
    index.set("moved-in.md", entry(1, ctime_ns=0))
    shown, begun = view(index), time.time_ns()

    (first,) = await rows(shown)
    index.set("other.md", entry(2))
    again = next(row for row in await rows(shown) if row.path == "moved-in.md")

    assert begun <= first.changed_ns == again.changed_ns
    assert first.modified == 1.0


async def test_files_that_are_no_notes_are_asked_for_once_and_listed():
    index = index_of("a.png", "b.png")
    digests: dict[str, str] = {}
    shown = view(index, include_binary=True, known=lambda path, _entry: digests.get(path))

    assert await shown.refresh() == ["a.png", "b.png"]
    digests["a.png"] = "of a"
    assert await shown.refresh({}) == []
    listed = {row.path: row.hash for part in shown.parts() for row in part.rows}
    assert listed["a.png"] == "of a"
    assert listed["b.png"]  # it could not be read; it is not taken for one that is gone
    digests["b.png"] = "of b"
    assert await shown.refresh() == []
    assert {row.path: row.hash for part in shown.parts() for row in part.rows}["b.png"] == "of b"


async def test_a_quick_listing_needs_no_digest_and_changes_with_the_file():
    index = index_of("a.png")
    shown = view(index, include_binary=True, quick=True)
    before = (await rows(shown))[0].hash
    index.set("a.png", entry(7, digest=None))

    assert (await rows(shown))[0].hash != before


async def test_what_the_caller_may_not_see_is_not_listed():
    index = index_of("Daily/a.md", "Daily/b.md", "Daily/private/a.md", "c.md")
    access = AccessGrant(alternatives=(((PathGlob("Daily/a*"),),),))

    assert [row.path for row in await rows(view(index, access=access))] == ["Daily/a.md"]


@pytest.mark.parametrize("name", ["..\\..\\x.md", "C:x.md", "b\udcffd.md"])
async def test_names_that_lead_elsewhere_on_another_system_are_not_sent(name):
    assert await rows(view(index_of(name))) == []


@pytest.mark.parametrize("pattern", ["*" * 200, "*a" * 100, "[" * 200, "*?" * 100, "[!a]*" * 40])
async def test_no_pattern_takes_long(pattern):
    index = index_of(*(f"{'a' * 200}{number}.md" for number in range(50)))
    began = time.process_time()
    await view(index, pattern=pattern).refresh()

    assert time.process_time() - began < 5


async def test_a_large_listing_leaves_the_loop_to_others_while_it_is_made():
    index = index_of(*(f"{number}/note.md" for number in range(1_000)))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(others())
        await view(index).refresh()
        task.cancel()

    assert turns > 5
