"""What a key learns from records: of runs, of undone runs, of moves, of plans.

None quotes a note that the key may not read.

Each attack goes through a running daemon, as it was found.
"""

from __future__ import annotations

import json

import pytest

from parachuted.agents import Job
from parachuted.testing import Block, ScriptedBackend, say, use
from parachuted.times import with_times
from tests.api.calls import call, get, key_of, post
from tests.stories.daemon_rig import DaemonRig, Live, note, save

SHOP = "Shop/AGENTS.md"
HIDDEN = "Private/secret.md"
CANARY = "canary7141"
READ = ("curator:read", "vault:read")


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


async def says(job: Job) -> list[Block]:
    """A curator that calls no tool, and repeats what it was told."""
    return [say(job.prompt[-1500:])]


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


async def all_told(daemon_rig: DaemonRig, run: str, key: dict[str, str]) -> dict[str, object]:
    """All that the routes of runs tell that key."""
    paths = (
        "/api/runs",
        f"/api/runs/{run}",
        f"/api/runs/{run}/diff",
        f"/api/why?path={SHOP}",
        f"/api/history?path={SHOP}",
        "/api/tasks",
    )
    reported = {path: await call(daemon_rig, "GET", path, headers=key) for path in paths}
    assert {status for status, _ in reported.values()} == {200}, reported
    return {path: answer for path, (_, answer) in reported.items()}


@pytest.mark.parametrize("script", [reads_all, says])
async def test_a_run_quotes_no_note_that_its_reader_may_not_read(live: Live, vault, script):
    """The shop's note watches a private one; what made it run is a note of the shop."""
    shop(vault, "Private/*.md", "Shop/stock.md")
    async with live(ScriptedBackend(script)) as daemon_rig:
        if script is says:
            await ran(daemon_rig, HIDDEN, f"# Secret\n\n{CANARY} again\n")
        run = await ran(daemon_rig, "Shop/stock.md", "# Stock\n\n- tea\n- rice\n")
        whole = await get(daemon_rig, f"/api/runs/{run}")
        reported = await all_told(daemon_rig, run, key_of(daemon_rig, *READ, paths=["Shop/**"]))

    if script is reads_all:
        assert CANARY in json.dumps(whole)
        assert HIDDEN in whole["quotes"]
    for path, answer in reported.items():
        assert CANARY not in json.dumps(answer), path
        assert "secret" not in json.dumps(answer).lower(), path
    alone = reported[f"/api/runs/{run}"]
    assert (alone["steps"], alone["reason"], alone["prompt_digest"]) == ([], "", "")


async def test_a_run_that_quotes_what_its_reader_may_read_is_reported_whole(live: Live, vault):
    shop(vault, "Shop/stock.md")
    async with live(ScriptedBackend(says)) as daemon_rig:
        run = await ran(daemon_rig, "Shop/stock.md", "# Stock\n\n- tea\n- rice\n")
        whole = await get(daemon_rig, f"/api/runs/{run}")
        reported = await all_told(daemon_rig, run, key_of(daemon_rig, *READ, paths=["Shop/**"]))

    causes = [
        {name: value for name, value in cause.items() if name != "files"}
        for cause in whole["causes"]
    ]  # which counts all files
    assert reported[f"/api/runs/{run}"] == {**whole, "causes": causes}
    assert whole["quotes"] == [SHOP, "Shop/stock.md"]
    assert "rice" in json.dumps(whole["steps"])


async def test_a_session_that_is_gone_on_with_still_quotes_what_it_read_before(live: Live, vault):
    shop(vault, "Private/*.md", "Shop/stock.md")

    async def script(job: Job) -> list[Block]:
        return [say("remembered")]

    async with live(ScriptedBackend(script)) as daemon_rig:
        await ran(daemon_rig, HIDDEN, f"# Secret\n\n{CANARY} again\n")
        save(vault / SHOP, note("Shop", watch=["Shop/stock.md"]))
        await daemon_rig.settled()
        run = await ran(daemon_rig, "Shop/stock.md", "# Stock\n\n- tea\n- rice\n")
        whole = await get(daemon_rig, f"/api/runs/{run}")
        _, reported = await call(
            daemon_rig,
            "GET",
            f"/api/runs/{run}",
            headers=key_of(daemon_rig, *READ, paths=["Shop/**"]),
        )

    assert [one["path"] for one in whole["reviewed"]] == ["Shop/stock.md"]
    assert HIDDEN in whole["quotes"]
    assert reported["steps"] == []


async def test_the_difference_of_a_note_that_came_from_elsewhere_quotes_that_place(
    live: Live, vault
):
    shop(vault, "Private/*.md", "Shop/*.md")
    async with live(ScriptedBackend(says)) as daemon_rig:
        await daemon_rig.settled()
        (vault / HIDDEN).rename(vault / "Shop/open.md")
        run = await ran(daemon_rig, "Shop/open.md", "# Open\n\nnothing\n")
        whole = await get(daemon_rig, f"/api/runs/{run}")
        reported = await all_told(daemon_rig, run, key_of(daemon_rig, *READ, paths=["Shop/**"]))

    assert HIDDEN in whole["quotes"]
    assert CANARY not in json.dumps(reported)
    assert HIDDEN not in json.dumps(reported)


async def test_without_the_right_to_read_the_vault_no_text_of_a_run_is_reported(live: Live, vault):
    shop(vault, "Private/*.md", "Shop/stock.md")
    async with live(ScriptedBackend(reads_all)) as daemon_rig:
        run = await ran(daemon_rig, "Shop/stock.md", "# Stock\n\n- tea\n- rice\n")
        reported = await all_told(daemon_rig, run, key_of(daemon_rig, "curator:read"))

    for path, answer in reported.items():
        assert CANARY not in json.dumps(answer), path
        assert "looked" not in json.dumps(answer), path
        assert "rice" not in json.dumps(answer), path
    assert [one["path"] for one in reported[f"/api/runs/{run}"]["wrote"]] == [SHOP]


async def test_a_run_of_before_lists_were_kept_shows_its_words_to_who_sees_all(live: Live, vault):
    shop(vault, "Shop/stock.md")
    async with live(ScriptedBackend(says)) as daemon_rig:
        run = await ran(daemon_rig, "Shop/stock.md", "# Stock\n\n- tea\n- rice\n")
        document = {
            name: value
            for name, value in daemon_rig.daemon.watched.history.run(run).items()
            if name != "quotes"
        }
        daemon_rig.daemon.watched.history._database.rows(
            "UPDATE runs SET document = ? WHERE id = ?", (json.dumps(document), run)
        )
        _, reported = await call(
            daemon_rig,
            "GET",
            f"/api/runs/{run}",
            headers=key_of(daemon_rig, *READ, paths=["Shop/**"]),
        )
        _, all_of_it = await call(
            daemon_rig, "GET", f"/api/runs/{run}", headers=key_of(daemon_rig, *READ)
        )

    assert (reported["steps"], reported["reason"]) == ([], "")
    assert all_of_it == with_times(document)


async def test_a_page_of_runs_is_full_whatever_lies_between(live: Live, vault):
    """Neither the length of a page nor where it ends says how many runs there are that the key does
    not see.
    """
    save(vault / SHOP, note("Shop", watch=["Shop/stock.md"]))
    save(vault / "Private/AGENTS.md", note("Private", watch=["Private/*.md"]))
    async with live() as daemon_rig:
        for number in range(3):
            save(vault / "Shop/stock.md", f"# Stock\n\n- {number}\n")
            await daemon_rig.settled()
            save(vault / "Private/secret.md", f"# Secret\n\n- {number}\n")
            await daemon_rig.settled()
        key = key_of(daemon_rig, *READ, paths=["Shop/**"])
        _, first = await call(daemon_rig, "GET", "/api/runs?limit=2", headers=key)
        _, second = await call(
            daemon_rig, "GET", f"/api/runs?limit=2&before={first['runs'][-1]['id']}", headers=key
        )

    assert (first["count"], second["count"]) == (2, 1)
    assert {run["watcher"] for page in (first, second) for run in page["runs"]} == {SHOP}


async def moved_away(daemon_rig: DaemonRig, vault) -> str:
    """A run of the shop's note, which a person then moved to where the shop's key does not see, and
    went on with there.
    """
    run = await ran(daemon_rig, "Shop/stock.md", "# Stock\n\n- tea\n- rice\n")
    (vault / SHOP).rename(vault / "Private/AGENTS.md")
    await daemon_rig.settled()
    moved = vault / "Private/AGENTS.md"
    save(moved, moved.read_text().replace("- looked", f"- {CANARY}"))
    await daemon_rig.settled()
    return run


@pytest.mark.parametrize(
    "scopes", [("curator:read,write",), ("curator:read,write", "vault:read,write")]
)
async def test_an_undo_asks_for_rights_where_the_files_are_now(live: Live, vault, scopes):
    shop(vault, "Shop/stock.md")
    async with live(ScriptedBackend(reads_all)) as daemon_rig:
        run = await moved_away(daemon_rig, vault)
        before = (vault / "Private/AGENTS.md").read_bytes()
        status, answer = await call(
            daemon_rig,
            "POST",
            f"/api/runs/{run}/undo",
            headers=key_of(daemon_rig, *scopes, paths=["Shop/**"]),
        )
        assert (vault / "Private/AGENTS.md").read_bytes() == before
        assert (status, CANARY in json.dumps(answer), "Private" in json.dumps(answer)) == (
            403,
            False,
            False,
        )
        assert (await get(daemon_rig, f"/api/runs/{run}"))["undone"] is None
        assert (await post(daemon_rig, f"/api/runs/{run}/undo"))["kept"]


async def test_an_undo_takes_the_right_to_write_and_shows_kept_texts_to_who_may_read_them(
    live: Live, vault
):
    shop(vault, "Shop/stock.md")
    async with live(ScriptedBackend(reads_all)) as daemon_rig:
        run = await ran(daemon_rig, "Shop/stock.md", "# Stock\n\n- tea\n- rice\n")
        save(vault / SHOP, (vault / SHOP).read_text().replace("- looked", f"- {CANARY}"))
        await daemon_rig.settled()
        before = (vault / SHOP).read_bytes()
        for scopes in (("curator:write",), ("curator:write", "vault:read")):
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
    assert CANARY not in json.dumps(undone)


async def test_an_undo_of_an_undo_asks_where_the_files_are_now(live: Live, vault):
    shop(vault, "Shop/stock.md")
    async with live(ScriptedBackend(reads_all)) as daemon_rig:
        run = await ran(daemon_rig, "Shop/stock.md", "# Stock\n\n- tea\n- rice\n")
        undo = (await post(daemon_rig, f"/api/runs/{run}/undo"))["undo"]
        (vault / SHOP).rename(vault / "Private/AGENTS.md")
        await daemon_rig.settled()
        before = (vault / "Private/AGENTS.md").read_bytes()
        key = key_of(daemon_rig, "curator:read,write", "vault:read,write", paths=["Shop/**"])
        assert (await call(daemon_rig, "POST", f"/api/runs/{undo}/undo", headers=key))[0] == 403
        assert (vault / "Private/AGENTS.md").read_bytes() == before


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
        _, versions = await call(daemon_rig, "GET", "/api/notes/Shop/x.md/versions", headers=key)
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
    assert first not in json.dumps([history, versions, answer])
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


async def test_a_plan_and_a_look_count_and_name_what_is_seen(live: Live, vault):
    save(vault / "Shop/stock.md", "# Stock\n")
    for folder in ("Shop", "Private", "Other"):
        save(vault / f"{folder}/AGENTS.md", note(folder, watch=["Shop/stock.md"]))
    async with live(bubble__quiet_s=60, bubble__max_wait_s=60) as daemon_rig:
        key = key_of(daemon_rig, "curator:read,write", "vault:read", paths=["Shop/**"])
        _, plan = await call(
            daemon_rig, "POST", "/api/bubble/plan", json={"path": "Shop/stock.md"}, headers=key
        )
        _, look = await call(
            daemon_rig, "POST", "/api/bubble/run", json={"path": "Shop/stock.md"}, headers=key
        )
        _, whole = await call(
            daemon_rig, "POST", "/api/bubble/plan", json={"path": "Shop/stock.md"}
        )
        own = [task.id for task in daemon_rig.daemon.loop.queue.all() if task.watcher == SHOP]

    assert (whole["most_runs"], plan["most_runs"], look["most_runs"]) == (3, 1, 1)
    assert plan["most_cost_usd"] == pytest.approx(whole["most_cost_usd"] / 3, abs=1e-4)
    assert look["tasks"] == own
