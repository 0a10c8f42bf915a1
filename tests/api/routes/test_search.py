from __future__ import annotations

import asyncio
import os
import time
from urllib.parse import quote

import aiohttp
import pytest

from parachuted.api.routes.search import folders_of
from parachuted.keys import AccessGrant, PathGlob
from tests.api.calls import expect, get, key_of, noticed
from tests.stories.daemon_rig import DaemonRig, Live, save


async def find(daemon_rig: DaemonRig, text: str, **more: object) -> list[str]:
    """The paths that are found."""
    given = {"q": text, **more}
    query = "&".join(
        f"{key}={quote(str(value), errors='surrogateescape')}" for key, value in given.items()
    )
    return [hit["path"] for hit in (await get(daemon_rig, f"/api/search?{query}"))["results"]]


async def test_a_saved_note_is_found_soon(vault, daemon_rig: DaemonRig):
    save(vault / "old.md", "# Old\n\nbeans\n")
    await noticed(daemon_rig)
    assert await find(daemon_rig, "beans") == ["old.md"]
    for number in range(10):
        save(vault / "old.md", f"# Old\n\nword{number}\n")
        while not await find(daemon_rig, f"word{number}"):
            await asyncio.sleep(0.002)
    (vault / "old.md").rename(vault / "new.md")
    await daemon_rig.until(lambda: daemon_rig.reported("file.moved"))
    await noticed(daemon_rig)
    assert await find(daemon_rig, "word9") == ["new.md"]
    (vault / "new.md").unlink()
    await daemon_rig.until(lambda: daemon_rig.reported("file.deleted"))
    await noticed(daemon_rig)
    assert await find(daemon_rig, "word9") == []


async def test_a_hit_is_reported_with_a_snippet_that_cannot_be_script(vault, daemon_rig: DaemonRig):
    save(
        vault / "a.md",
        "---\ntags: [x]\n---\n# Beans & <b>peas</b>\n\n<script>alert('beans')</script>\n",
    )
    await noticed(daemon_rig)
    answer = await get(daemon_rig, "/api/search?q=beans&explain=1")

    (hit,) = answer["results"]
    assert answer == answer | {"count": 1, "complete": True, "indexing": False, "query": "beans"}
    assert (hit["path"], hit["title"], hit["tags"]) == ("a.md", "Beans & <b>peas</b>", ["x"])
    assert hit["modified"].endswith("Z")
    assert "&lt;script&gt;alert(&#x27;<mark>beans</mark>&#x27;)&lt;/script&gt;" in hit["snippet"]
    assert hit["why"]["hits"] == {"title": 1, "headings": 1, "body": 2}
    assert hit["score"] == pytest.approx(
        hit["why"]["bm25"] * hit["why"]["freshness"] * hit["why"]["same_title"], rel=1e-3
    )


async def test_a_search_is_kept_to_a_folder_and_passes_over_dot_folders(
    vault, daemon_rig: DaemonRig
):
    """Parts of notes and beginnings of words: tests/search/test_engine.py and test_query.py."""
    for path in ("a/x.md", "b/x.md", ".secret/a.md", ".agents/b.md"):
        save(vault / path, "# Beans\n")
    await noticed(daemon_rig)
    for more, found in (
        ({"in": "a"}, ["a/x.md"]),
        ({"in": "a/"}, ["a/x.md"]),
        ({}, [".agents/b.md", "a/x.md", "b/x.md"]),
    ):
        assert sorted(await find(daemon_rig, "beans", **more)) == found
    assert len(await find(daemon_rig, "beans", limit=1)) == 1


async def test_what_cannot_be_answered_is_refused_with_the_reason(daemon_rig: DaemonRig):
    for query, reason in {
        "q=": "write what to look for",
        "": "q: Field required",
        "q=-a": "besides what is to be left out",
        "q=" + "a" * 1_001: "longer than 1000 characters",
        "q=" + "a+" * 400: "more than 32 terms",
        "q=a&limit=0": "limit",
        "q=a&limit=101": "limit",
        "q=a&in=../x": "not a path in the vault",
    }.items():
        await expect(daemon_rig, 400, "GET", f"/api/search?{query}", says=reason)


async def test_no_text_in_the_box_breaks_the_search(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", "beans")
    async with aiohttp.ClientSession() as session:
        await noticed(daemon_rig)
        for text in (
            *('"', "NEAR(a b)", "body:x", "{title}: a", "a AND", "^a", "%00a", "%ff%fe"),
            *("a' OR 1=1", "title:", 'k:"', "((((", "%F0%9F%98%80 a"),
        ):
            began = time.process_time()
            async with session.get(
                f"{daemon_rig.url}/api/search?q={text.replace(' ', '+')}"
            ) as answer:
                assert answer.status in {200, 400}, text
                await answer.json()
            assert time.process_time() - began < 8


async def test_the_doctor_lists_each_note_that_is_not_found_by_its_text(
    vault, daemon_rig: DaemonRig
):
    save(vault / "fine.md", "beans")
    (vault / "binary.md").write_bytes(b"\0\1\2")
    await noticed(daemon_rig)
    answer = await get(daemon_rig, "/api/doctor")

    assert answer["search"] == {"indexed": 2, "waiting": 0}
    (found,) = [found for found in answer["findings"] if found["about"] == "unindexed"]
    assert found["path"] == "binary.md"
    assert "NUL" in found["problem"]


async def test_an_index_that_is_garbled_or_gone_is_made_again_and_said(live: Live, vault, home):
    save(vault / "a.md", "beans")
    async with live() as daemon_rig:
        await daemon_rig.indexed()
    (database,) = home.glob("state/*/search.db")
    database.write_bytes(b"garbled " * 1000)

    async with live() as daemon_rig:
        await daemon_rig.indexed()
        assert await find(daemon_rig, "beans") == ["a.md"]
        assert "search.db.garbled" in daemon_rig.daemon.watched.problems.open["search"]
        for suffix in ("", "-wal", "-shm"):
            database.with_name(f"search.db{suffix}").unlink(missing_ok=True)
        await daemon_rig.until(database.exists)
        await daemon_rig.indexed()
        assert await find(daemon_rig, "beans") == ["a.md"]


async def test_names_that_are_not_utf8_are_reported_as_they_can_be(vault, daemon_rig: DaemonRig):
    (vault / os.fsdecode(b"caf\xe9.md")).write_text("beans")
    await noticed(daemon_rig)
    assert await find(daemon_rig, "beans") == ["caf\\xe9.md"]


def test_a_limited_caller_is_searched_for_in_its_folders_only():
    def grant(*alternatives: tuple[tuple[str, ...], ...]) -> AccessGrant:
        return AccessGrant(
            alternatives=tuple(
                tuple(tuple(map(PathGlob, globs)) for globs in every) for every in alternatives
            )
        )

    assert folders_of(AccessGrant(alternatives=None)) == []
    assert folders_of(grant((("Projects/garden/**",),))) == [["Projects/garden"]]
    assert folders_of(grant((("a/*/x.md", "b/c.md"),), (("Daily/**",), ("**",)))) == [
        ["a", "b", "Daily"]
    ]
    assert folders_of(grant((("**/x.md",),))) == []


async def test_a_key_for_one_folder_finds_its_notes_and_no_others(vault, daemon_rig: DaemonRig):
    for number in range(40):
        save(vault / f"Private/{number}.md", f"# Beans {number}\n\nbeans beans\n")
        save(vault / f"Open/{number}.md", f"some beans {number}\n")
    await noticed(daemon_rig)
    key = {"headers": key_of(daemon_rig, "vault:read", paths=["Open/**"], local=True)}
    answer = await expect(daemon_rig, 200, "GET", "/api/search?q=beans&limit=30", **key)
    none = await expect(daemon_rig, 200, "GET", "/api/search?q=beans&in=Private", **key)

    assert answer["count"] == 30
    assert all(hit["path"].startswith("Open/") for hit in answer["results"])
    assert (none["results"], none["count"], none["complete"]) == ([], 0, True)
