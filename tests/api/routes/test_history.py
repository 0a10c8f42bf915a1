"""The history over HTTP: versions, diffs, and files brought back; who sees a part sees that
part.
"""

from __future__ import annotations

import pytest

from tests.api.calls import call, code, expect, get, key_of, post, refused
from tests.api.routes.test_runs import GARDEN, run_once
from tests.stories.daemon_rig import DaemonRig, Live, note, save

RESTORE = "/api/history/restore"

ROOT = "AGENTS.md"


async def test_the_versions_of_a_file_are_reported_newest_first(pair, daemon_rig: DaemonRig):
    run = await run_once(daemon_rig)
    answer = await get(daemon_rig, f"/api/history?path={ROOT}")

    newest, between, first = answer["versions"]
    assert (answer["path"], answer["count"], answer["since"]) == (ROOT, 3, None)
    assert newest == newest | {"by": "curator", "run": run["id"], "kind": "changed", "kept": True}
    assert between["run"] == run["id"]
    assert newest["added"] > 0
    assert first == first | {"by": "person", "run": None, "at": None, "kept": True}
    assert len((await get(daemon_rig, f"/api/history?path={ROOT}&limit=1"))["versions"]) == 1


async def test_a_persons_save_and_move_are_versions_with_their_time(pair, daemon_rig: DaemonRig):
    await daemon_rig.settled()
    save(pair / GARDEN, note("Garden", focus="- sow"))
    await daemon_rig.settled()
    (pair / GARDEN).rename(pair / "Projects/plot.md")
    await daemon_rig.settled()
    versions = (await get(daemon_rig, "/api/history?path=Projects/plot.md"))["versions"]

    assert [
        (
            version["kind"],
            version["path"],
            version["source"],
            version["by"],
            version["at"] is not None,
        )
        for version in versions[:2]
    ] == [
        ("moved", "Projects/plot.md", GARDEN, "person", True),
        ("changed", GARDEN, None, "person", True),
    ]


async def test_a_run_and_what_followed_are_reported_file_by_file(pair, daemon_rig: DaemonRig):
    run = await run_once(daemon_rig)
    answer = await get(daemon_rig, f"/api/runs/{run['id']}/diff")

    assert answer["runs"] == [run["id"]]
    (file,) = answer["files"]
    assert (file["path"], file["runs"], file["source"]) == (ROOT, [run["id"]], None)
    assert file["diff"].startswith("--- a/AGENTS.md")
    assert answer == await get(daemon_rig, f"/api/runs/{run['id']}/diff?cascade=false")
    await expect(daemon_rig, 404, "GET", "/api/runs/r-x/diff")


async def test_a_file_is_brought_back_and_wakes_no_one_and_that_is_undone(live: Live, pair):
    before = (pair / ROOT).read_bytes()
    async with live() as daemon_rig:
        run = await run_once(daemon_rig)
        after = (pair / ROOT).read_bytes()
        done = await post(daemon_rig, RESTORE, {"path": ROOT, "run": run["id"]})
        assert (pair / ROOT).read_bytes() == before
        assert (done["path"], done["merged"]) == (ROOT, False)
        again = await post(daemon_rig, RESTORE, {"path": ROOT, "version": done["before"][:12]})
        assert (pair / ROOT).read_bytes() == after
        await post(daemon_rig, f"/api/runs/{again['run']}/undo")
        assert (pair / ROOT).read_bytes() == before
        await daemon_rig.settled()
        assert len(daemon_rig.reported("run.finished")) == 1
        assert [one["agent"] for one in (await get(daemon_rig, "/api/runs"))["runs"]].count(
            "restore"
        ) == 2


async def test_a_deleted_file_comes_back(pair, daemon_rig: DaemonRig):
    run = await run_once(daemon_rig)
    text = (pair / ROOT).read_bytes()
    (pair / ROOT).unlink()
    await daemon_rig.settled()
    await post(daemon_rig, RESTORE, {"path": ROOT, "run": run["id"], "after": True})

    assert (pair / ROOT).read_bytes() == text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"path": ROOT}, 400),
        ({"path": ROOT, "run": "r-1", "version": "abcd"}, 400),
        ({"path": ROOT, "version": "xyz"}, 400),
        ({"path": ROOT, "version": "ffffff"}, 404),
        ({"path": ROOT, "run": "r-1"}, 404),
        ({"path": "nowhere.md", "run": "r-1"}, 404),
        ({"path": "../x", "run": "r-1"}, 400),
        ({"path": ".parachute/x", "run": "r-1"}, 404),
        ({"path": "Modules/x/module.py", "run": "r-1"}, 422),
        ({"path": "Suggestions/x.md", "run": "r-1"}, 422),
    ],
)
async def test_what_cannot_be_restored_is_refused(pair, body, status, daemon_rig: DaemonRig):
    got, message = await refused(daemon_rig, "POST", RESTORE, json=body)

    assert got == status, message
    assert (pair / ROOT).exists()


async def test_what_was_changed_in_the_same_place_since_is_shown_and_kept(
    pair, daemon_rig: DaemonRig
):
    run = await run_once(daemon_rig)
    base = (await get(daemon_rig, f"/api/history?path={ROOT}"))["versions"][0]["version"]
    text = (pair / ROOT).read_text()
    save(pair / ROOT, "".join(f"{line} mine\n" for line in text.splitlines()))
    await daemon_rig.settled()
    status, answer = await call(
        daemon_rig, "POST", RESTORE, json={"path": ROOT, "run": run["id"], "base": base}
    )

    assert status == 409
    assert "mine" in str(answer)
    assert "mine" in (pair / ROOT).read_text()


async def sees_nothing_of_the_root(daemon_rig: DaemonRig, run: str) -> None:
    projects = {
        "headers": key_of(
            daemon_rig,
            "curator:read",
            "curator:write",
            "vault:read,write",
            paths=["Projects/**"],
            local=True,
        )
    }
    await expect(daemon_rig, 404, "GET", f"/api/history?path={ROOT}", **projects)
    await expect(daemon_rig, 403, "GET", f"/api/runs/{run}/diff", **projects)
    body = {"path": ROOT, "run": run}
    assert await code(daemon_rig, "POST", RESTORE, json=body, **projects) in {403, 404}


async def test_who_sees_a_part_hears_of_that_part(pair, daemon_rig: DaemonRig):
    run = await run_once(daemon_rig)
    await sees_nothing_of_the_root(daemon_rig, run["id"])
    reader = {"headers": key_of(daemon_rig, "vault:read", local=True)}
    body = {"path": ROOT, "run": run["id"]}
    await expect(daemon_rig, 403, "POST", RESTORE, json=body, **reader)


async def test_what_a_file_said_where_the_caller_does_not_see_it_is_neither_counted_nor_brought_back(  # noqa: E501
    live: Live, vault
):
    save(vault / "Private/x.md", "secret\n")
    async with live() as daemon_rig:
        await daemon_rig.settled()
        await expect(
            daemon_rig,
            200,
            "PUT",
            "/api/write",
            json={"path": "Private/x.md", "content": "public\n"},
        )
        hidden = (await get(daemon_rig, "/api/history?path=Private/x.md"))["versions"][1]["version"]
        (vault / "Projects").mkdir()
        (vault / "Private/x.md").rename(vault / "Projects/x.md")
        await daemon_rig.settled()
        theirs = {
            "headers": key_of(daemon_rig, "curator:read", "vault:read,write", paths=["Projects/**"])
        }
        _status, reported = await call(
            daemon_rig, "GET", "/api/history?path=Projects/x.md&limit=1", **theirs
        )
        assert (reported["count"], [one["kind"] for one in reported["versions"]]) == (1, ["moved"])
        body = {"path": "Projects/x.md", "version": hidden}
        status, says = await refused(daemon_rig, "POST", RESTORE, json=body, **theirs)
        assert (status, (vault / "Projects/x.md").read_text()) == (404, "public\n"), says
        assert (await post(daemon_rig, RESTORE, body))["version"] == hidden
    assert (vault / "Projects/x.md").read_text() == "secret\n"
