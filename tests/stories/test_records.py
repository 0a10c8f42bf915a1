"""What a key learns and may do by records: of undone runs, of a note's past, of moves."""

from __future__ import annotations

import json

from parachuted.agents.job import Job
from parachuted.testing import Block, ScriptedBackend, say, use
from tests.api.calls import call, get, key_of, post
from tests.stories.daemon_rig import DaemonRig, Live, note, save

SHOP = "Shop/AGENTS.md"
HIDDEN = "Private/secret.md"
CANARY = "canary7141"


async def reads_all(job: Job) -> list[Block]:
    """A curator that reads all that it may, says so, and writes nothing of it."""
    blocks: list[Block] = [use("list_context_files")]
    blocks += [
        use("read_context", file_path=path) for path in (HIDDEN, "Shop/stock.md", job.watcher)
    ]
    blocks += [
        use("update_context", file_path=job.watcher, section="Current Focus", content="- looked")
    ]
    return [*blocks, say("nothing to add")]


def shop(vault, *watched: str) -> None:
    save(vault / HIDDEN, f"# Secret\n\n{CANARY}\n")
    save(vault / "Shop/stock.md", "# Stock\n\n- tea\n")
    save(vault / SHOP, note("Shop", watch=list(watched)))


async def ran(daemon_rig: DaemonRig, path: str, text: str) -> str:
    """The newest run of the shop's note, once that was saved."""
    save(daemon_rig.vault / path, text)
    await daemon_rig.settled()
    return next(
        run["id"] for run in (await get(daemon_rig, "/api/runs"))["runs"] if run["watcher"] == SHOP
    )


async def test_an_undo_takes_the_right_to_write_the_whole_vault(live: Live, vault):
    shop(vault, "Shop/stock.md")
    async with live(ScriptedBackend(reads_all)) as daemon_rig:
        run = await ran(daemon_rig, "Shop/stock.md", "# Stock\n\n- tea\n- rice\n")
        save(vault / SHOP, (vault / SHOP).read_text().replace("- looked", f"- {CANARY}"))
        await daemon_rig.settled()
        before = (vault / SHOP).read_bytes()
        for scopes in (
            ("curator:write",),
            ("curator:write", "vault:read"),
            ("curator:write", "daily:write"),
        ):
            assert (
                await call(
                    daemon_rig, "POST", f"/api/runs/{run}/undo", headers=key_of(daemon_rig, *scopes)
                )
            )[0] == 403
        assert (vault / SHOP).read_bytes() == before
        status, undone = await call(
            daemon_rig,
            "POST",
            f"/api/runs/{run}/undo",
            headers=key_of(daemon_rig, "curator:write", "vault:write"),
        )

    assert (status, list(undone["kept"])) == (200, [SHOP])


async def test_a_note_that_came_from_elsewhere_shows_its_past_since_then(live: Live, vault):
    """Its texts at the place that the key does not see are not listed, counted, compared with,
    served or brought back.
    """
    save(vault / "Private/x.md", f"# X\n\n{CANARY}\n")
    async with live() as daemon_rig:
        await daemon_rig.settled()
        first = (await get(daemon_rig, "/api/notes/Private/x.md"))["hash"]
        await call(
            daemon_rig,
            "PUT",
            "/api/notes/Private/x.md",
            data=b"# X\n\nopen\n",
            headers={"Content-Type": "text/markdown"},
        )
        await post(daemon_rig, "/api/notes/Private/x.md/move", {"to": "Shop/x.md"})
        await call(
            daemon_rig,
            "PUT",
            "/api/notes/Shop/x.md",
            data=b"# X\n\nopen\n\nmore\n",
            headers={"Content-Type": "text/markdown"},
        )
        key = key_of(daemon_rig, "curator:read,write", "vault:read,write", paths=["Shop/**"])
        _, history = await call(daemon_rig, "GET", "/api/history?path=Shop/x.md", headers=key)
        gone, _ = await call(
            daemon_rig, "GET", f"/api/notes/Shop/x.md?version={first}", headers=key
        )
        refused, answer = await call(
            daemon_rig,
            "POST",
            "/api/history/restore",
            json={"path": "Shop/x.md", "version": first[:12]},
            headers=key,
        )
        arrived = history["versions"][-1]
        back, _ = await call(
            daemon_rig,
            "POST",
            "/api/history/restore",
            json={"path": "Shop/x.md", "version": arrived["version"]},
            headers=key,
        )
        assert (vault / "Shop/x.md").read_text() == "# X\n\nopen\n"

    assert (history["count"], len(history["versions"])) == (2, 2)
    assert (arrived["kind"], arrived["path"], arrived["source"]) == ("moved", "Shop/x.md", None)
    assert (arrived["added"], arrived["removed"]) == (None, None)
    assert first not in json.dumps([history, answer])
    assert (gone, refused, back) == (404, 404, 200)


async def test_links_that_a_move_leaves_are_counted_in_notes_that_are_seen(live: Live, vault):
    save(vault / "Shop/a.md", "# A\n")
    for path in ("Shop/b.md", "Private/c.md", "Private/d.md"):
        save(vault / path, "See [a](/Shop/a.md) and [[Shop/a]].\n")
    async with live() as daemon_rig:
        key = key_of(daemon_rig, "vault:read,write", paths=["Shop/**"])
        status, moved = await call(
            daemon_rig, "POST", "/api/notes/Shop/a.md/move", json={"to": "Shop/z.md"}, headers=key
        )
        await daemon_rig.settled()

    assert (status, [one["path"] for one in moved["rewritten"]], moved["left"]) == (
        200,
        ["Shop/b.md"],
        0,
    )
