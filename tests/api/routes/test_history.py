"""The history over HTTP: versions, diffs, and files brought back; who sees a part sees that
part.
"""

from __future__ import annotations

import pytest

from tests.api.calls import code, expect, get, key_of, post
from tests.api.routes.test_runs import GARDEN, run_once
from tests.stories.daemon_rig import DaemonRig, note, save

RESTORE = "/api/history/restore"

ROOT = "AGENTS.md"


@pytest.fixture
def daemon_rig(own_daemon: DaemonRig) -> DaemonRig:
    """Runs of other tests would be among those that are listed."""
    return own_daemon


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

    fields = ("kind", "path", "source", "by")
    assert [tuple(version[field] for field in fields) for version in versions[:2]] == [
        ("moved", "Projects/plot.md", GARDEN, "person"),
        ("changed", GARDEN, None, "person"),
    ]
    assert None not in {version["at"] for version in versions[:2]}


async def test_a_run_and_what_followed_are_reported_file_by_file(pair, daemon_rig: DaemonRig):
    run = await run_once(daemon_rig)
    answer = await get(daemon_rig, f"/api/runs/{run['id']}/diff")

    assert answer["runs"] == [run["id"]]
    (file,) = answer["files"]
    assert (file["path"], file["runs"]) == (ROOT, [run["id"]])
    assert file["diff"].startswith("--- a/AGENTS.md")
    assert answer == await get(daemon_rig, f"/api/runs/{run['id']}/diff?cascade=false")
    await expect(daemon_rig, 404, "GET", "/api/runs/r-x/diff")


async def test_a_file_is_brought_back_and_wakes_no_one_and_that_is_undone(
    pair, daemon_rig: DaemonRig
):
    before = (pair / ROOT).read_bytes()
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
    agents = [one["agent"] for one in (await get(daemon_rig, "/api/runs"))["runs"]]
    assert agents.count("restore") == 2
    save(pair / ROOT, after.decode())
    await daemon_rig.settled()
    (pair / ROOT).unlink()
    await daemon_rig.settled()
    await post(daemon_rig, RESTORE, {"path": ROOT, "run": run["id"], "after": True})
    assert (pair / ROOT).read_bytes() == after, "a deleted file comes back"


async def test_what_cannot_be_restored_is_refused(pair, daemon_rig: DaemonRig):
    for body, status in (
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
    ):
        await expect(daemon_rig, status, "POST", RESTORE, json=body)
    assert (pair / ROOT).exists()


async def test_what_was_changed_in_the_same_place_since_is_shown_and_kept(
    pair, daemon_rig: DaemonRig
):
    run = await run_once(daemon_rig)
    base = (await get(daemon_rig, f"/api/history?path={ROOT}"))["versions"][0]["version"]
    text = (pair / ROOT).read_text()
    save(pair / ROOT, "".join(f"{line} mine\n" for line in text.splitlines()))
    await daemon_rig.settled()
    body = {"path": ROOT, "run": run["id"], "base": base}
    answer = await expect(daemon_rig, 409, "POST", RESTORE, json=body)

    assert "mine" in str(answer)
    assert "mine" in (pair / ROOT).read_text()


async def test_who_sees_a_part_hears_of_that_part(pair, daemon_rig: DaemonRig):
    run = (await run_once(daemon_rig))["id"]
    scopes = ("curator:read", "curator:write", "vault:read,write")
    projects = {"headers": key_of(daemon_rig, *scopes, paths=["Projects/**"], local=True)}
    body = {"path": ROOT, "run": run}
    await expect(daemon_rig, 404, "GET", f"/api/history?path={ROOT}", **projects)
    await expect(daemon_rig, 403, "GET", f"/api/runs/{run}/diff", **projects)
    assert await code(daemon_rig, "POST", RESTORE, json=body, **projects) in {403, 404}
    reader = {"headers": key_of(daemon_rig, "vault:read", local=True)}
    await expect(daemon_rig, 403, "POST", RESTORE, json=body, **reader)


async def test_what_a_file_said_where_the_caller_does_not_see_it_stays_hidden(
    vault, daemon_rig: DaemonRig
):
    save(vault / "Private/x.md", "secret\n")
    await daemon_rig.settled()
    public = {"path": "Private/x.md", "content": "public\n"}
    await expect(daemon_rig, 200, "PUT", "/api/write", json=public)
    hidden = (await get(daemon_rig, "/api/history?path=Private/x.md"))["versions"][1]["version"]
    (vault / "Projects").mkdir()
    (vault / "Private/x.md").rename(vault / "Projects/x.md")
    await daemon_rig.settled()
    key = key_of(daemon_rig, "curator:read", "vault:read,write", paths=["Projects/**"])
    where = "/api/history?path=Projects/x.md&limit=1"
    reported = await expect(daemon_rig, 200, "GET", where, headers=key)
    assert (reported["count"], [one["kind"] for one in reported["versions"]]) == (1, ["moved"])
    body = {"path": "Projects/x.md", "version": hidden}
    await expect(daemon_rig, 404, "POST", RESTORE, json=body, headers=key)
    assert (vault / "Projects/x.md").read_text() == "public\n"
    assert (await post(daemon_rig, RESTORE, body))["version"] == hidden
    assert (vault / "Projects/x.md").read_text() == "secret\n"
