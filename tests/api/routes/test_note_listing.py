from __future__ import annotations

from pathlib import Path

import pytest_asyncio

from tests.api.calls import expect, get, key_of, noticed
from tests.stories.daemon_rig import DaemonRig, save

ONE = "---\nstatus: open\nn: 5\ntags: [x/y]\n---\n# One\n[[two]] [[nowhere]]\n"


@pytest_asyncio.fixture(loop_scope="module")
async def store(vault: Path, daemon_rig: DaemonRig) -> None:
    save(vault / "A/one.md", ONE)
    save(vault / "A/two.md", "---\nstatus: done\nn: 10\na:eq: odd\n---\n# Two\n[[nothing]]\n")
    save(vault / "B/three.md", "# Three\n[[two]]\n")
    save(vault / ".hidden/four.md", "# Four\n[[two]]\n")
    await noticed(daemon_rig)


async def paths(daemon_rig: DaemonRig, query: str) -> list[str]:
    return [one["path"] for one in (await get(daemon_rig, f"/api/notes?{query}"))["notes"]]


async def test_notes_are_found_by_what_their_frontmatter_says(store, daemon_rig: DaemonRig):
    for query, expected in {
        "": ["A/one.md", "A/two.md", "B/three.md"],
        "where=status:eq:open": ["A/one.md"],
        "where=n:lt:10&where=status:eq:open": ["A/one.md"],
        "where=n:exists:true&sort=-n": ["A/two.md", "A/one.md"],
        "folder=A": ["A/one.md", "A/two.md"],
        "folder=B/": ["B/three.md"],
        "tag=x": ["A/one.md"],
        "sort=-title": ["A/two.md", "B/three.md", "A/one.md"],
    }.items():
        assert await paths(daemon_rig, query) == expected, query
    reported = (await get(daemon_rig, "/api/notes?where=status:eq:open"))["notes"][0]

    assert reported == reported | {"title": "One", "tags": ["x/y"], "size": len(ONE)}
    assert reported["frontmatter"]["status"] == "open"
    found, cursor = [], ""
    while cursor is not None:
        more = cursor and f"&cursor={cursor}"
        page = await get(daemon_rig, f"/api/notes?limit=1&sort=-title{more}")
        found += [one["path"] for one in page["notes"]]
        cursor = page["next"]
    assert found == ["A/two.md", "B/three.md", "A/one.md"]


async def test_a_query_that_means_nothing_is_refused(daemon_rig: DaemonRig):
    for query in (
        *("where=status", "where=status:is:open", "where=:eq:open", "where=a:exists:maybe"),
        *("limit=0", "limit=1001", "cursor=x", "folder=../x", "no=1", "sort=path&sort=title"),
        *("sort=modifed", "sort=-nobody", "&".join(["where=a:eq:b"] * 21)),
    ):
        await expect(daemon_rig, 400, "GET", f"/api/notes?{query}")


async def test_a_key_lists_its_paths_alone(store, daemon_rig: DaemonRig):
    in_a, in_b = (key_of(daemon_rig, "vault:read", paths=[path]) for path in ("A/**", "B/**"))

    async def listed(path: str, key: dict[str, str]) -> dict:
        return await expect(daemon_rig, 200, "GET", path, headers=key)

    notes = (await listed("/api/notes", in_a))["notes"]
    assert [one["path"] for one in notes] == ["A/one.md", "A/two.md"]
    links = await listed("/api/notes/A/two.md/backlinks", in_a)
    assert ([one["source"] for one in links["backlinks"]], links["count"]) == (["A/one.md"], 1)
    await expect(daemon_rig, 404, "GET", "/api/notes/B/three.md/backlinks", headers=in_a)
    links = (await listed("/api/links/unresolved", in_b))["links"]
    assert [one["source"] for one in links] == ["B/three.md"]  # where it leads to is not for B


async def test_links_to_a_note_and_to_nothing_are_reported(store, daemon_rig: DaemonRig):
    reported = await get(daemon_rig, "/api/notes/A/two.md/backlinks")
    link = {"target": "A/two.md", "text": "two", "kind": "wiki"}
    assert reported["backlinks"] == [
        {"source": "A/one.md", **link, "line": 7},
        {"source": "B/three.md", **link, "line": 2},
    ]
    first = await get(daemon_rig, "/api/links/unresolved?limit=1")
    rest = await get(daemon_rig, f"/api/links/unresolved?cursor={first['next']}")
    assert [one["text"] for one in first["links"] + rest["links"]] == ["nowhere", "nothing"]
    await expect(daemon_rig, 400, "GET", "/api/links/unresolved?cursor=x")
    await expect(daemon_rig, 404, "GET", "/api/notes/none.md/backlinks")


async def test_a_link_by_title_or_alias_leads_to_the_one_note_of_that_name(
    vault, daemon_rig: DaemonRig
):
    kim = "Brain/entities/people/kim-lee.md"
    save(vault / kim, "---\naliases: [Kimmy]\n---\n# Kim Lee\n")
    save(vault / "Work/kim.md", "# Kim Lee-Park\n")
    save(vault / "Private/kimmy.md", "# Kimmy\n")
    await noticed(daemon_rig)

    async def target(name: str, headers: dict[str, str] | None = None) -> str | None:
        path = f"/api/links/target?target={name}"
        return (await expect(daemon_rig, 200, "GET", path, headers=headers or {}))["path"]

    assert await target("Kim%20Lee") == await target("kim%20lee") == kim
    assert await target("Kimmy") == "Private/kimmy.md"  # a file's own name comes first
    assert await target("Kimmy", key_of(daemon_rig, "vault:read", paths=["Brain/**"])) == kim
    assert await target("Nobody") is None
    save(vault / "Work/kim-lee-2.md", "# Kim Lee\n")
    await noticed(daemon_rig)
    assert await target("Kim%20Lee") is None
