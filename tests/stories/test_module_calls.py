"""What a module writes in one call is one run: it is listed, explained and undone as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.api.calls import call, get, post
from tests.api.routes.test_modules import install
from tests.modules.small_modules import write_module
from tests.stories.daemon_rig import DaemonRig, Live, save
from tests.stories.official_modules import install_official

KIM = "Brain/entities/people/kim-lee.md"
SCRIBE = """
async def on_enable(self):
    await self.vault.write("Scribe/start.md", "Started.\\n")

@route("POST", "/lines")
async def add(self, text: str):
    before = self.current_call.own_run
    await self.vault.write("Scribe/line.md", text)
    return [before, self.current_call.own_run]

@route("POST", "/letters")
async def send(self, text: str):
    from parachuted.modules import NoteChange
    await self.vault.write("Scribe/letter.md", text)
    changes = [NoteChange("Scribe/fact.md", None, text="A fact.\\n")]
    return [self.current_call.own_run, await self.vault.edit_all(changes, reason="a fact")]

@route("POST", "/nothing")
async def idle(self):
    await self.vault.write("Scribe/idle.md", "One.\\n")
    await self.vault.delete("Scribe/idle.md")
"""
SCRIBES = "permissions:\n  read: [Scribe/**]\n  write: [Scribe/**]\n"


async def runs(daemon_rig: DaemonRig, query: str = "") -> list[dict]:
    return (await get(daemon_rig, f"/api/runs{query}"))["runs"]


async def run_that_wrote(daemon_rig: DaemonRig, path: str) -> dict[str, object]:
    """The newest run that wrote that file, whole."""
    for run in await runs(daemon_rig):
        whole = await get(daemon_rig, f"/api/runs/{run['id']}")
        if path in [one["path"] for one in whole["wrote"]]:
            return whole
    raise AssertionError(f"no run wrote {path}")


async def undo(daemon_rig: DaemonRig, run: object) -> list[str]:
    """The paths that were taken back."""
    return sorted((await post(daemon_rig, f"/api/runs/{run}/undo"))["paths"])


async def test_an_entry_and_an_import_are_runs_that_undo_takes_back(live: Live, vault: Path):
    entries = [
        {"uuid": str(day), "creationDate": f"2026-02-{day:02}T12:00:00Z", "text": f"Day {day}."}
        for day in (3, 4)
    ]
    save(vault / "Daily/import/Journal.json", json.dumps({"entries": entries}))
    async with live() as daemon_rig:
        await install_official(daemon_rig, "daily")
        made = await post(daemon_rig, "/api/daily/entries", {"content": "Planted the beans."})
        run = await run_that_wrote(daemon_rig, made["path"])
        assert (run["agent"], run["outcome"]) == ("module:daily", "changed")
        assert run["reason"].startswith("Daily: create entry, asked for by")
        why = await get(daemon_rig, f"/api/why?path={made['path']}")
        assert {line["run"] for line in why["lines"] if "beans" in line["text"]} == {run["id"]}
        assert daemon_rig.daemon.watched.history.count_runs() == 0, "it counts in no budget"

        count = len(await runs(daemon_rig))
        await get(daemon_rig, "/api/daily/entries")
        await call(daemon_rig, "PATCH", "/api/daily/entries/none", json={"content": "x"})
        assert len(await runs(daemon_rig)) == count, "what writes nothing is not a run"
        assert await undo(daemon_rig, run["id"]) == [made["path"]]
        assert not (vault / made["path"]).exists()

        body = {"source": "Daily/import", "dry_run": False}
        done = await post(daemon_rig, "/api/daily/import", body)
        run = await run_that_wrote(daemon_rig, "Daily/journals/2026-02-03.md")
        assert (len(run["wrote"]), done["run"], done["added"]) == (2, run["id"], 2)
        await undo(daemon_rig, run["id"])
        assert not list((vault / "Daily/journals").glob("*.md"))


async def test_mentions_are_undone_with_a_posted_entry_and_alone_in_a_typed(
    live: Live, vault: Path
):
    save(vault / KIM, "# Kim Lee\n\nGrows beans.\n")
    async with live() as daemon_rig:
        await install_official(daemon_rig, "brain", "daily")
        day, entry = "Daily/journals/2026-02-24.md", "# Noon\n\nHad lunch with Kim Lee.\n"
        save(vault / day, entry)
        await daemon_rig.until(lambda: "mentions:" in (vault / day).read_text())
        await daemon_rig.settled()
        run = await run_that_wrote(daemon_rig, day)
        assert "after an event" in run["reason"]
        await undo(daemon_rig, run["id"])
        assert (vault / day).read_text() == entry

        body = {"content": "Lunch with Kim Lee."}
        made = await post(daemon_rig, "/api/daily/entries", body)
        path = vault / made["path"]
        await daemon_rig.until(lambda: "mentions:" in path.read_text())
        await daemon_rig.settled()
        run = await run_that_wrote(daemon_rig, made["path"])
        await undo(daemon_rig, [*run["parents"], run["id"]][0])
        assert not path.exists()


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_each_call_of_a_module_is_a_run_and_so_is_what_it_writes_by_itself(
    live: Live, vault: Path, tmp_path: Path, trust: str
):
    folder = write_module(tmp_path / "scribe", SCRIBE, name="scribe", manifest=SCRIBES)
    letter, fact = vault / "Scribe/letter.md", vault / "Scribe/fact.md"
    mark = "---\norigin: stranger\n---\n" if trust == "untrusted" else ""
    async with live() as daemon_rig:
        await install(daemon_rig, folder, trust)
        start = await run_that_wrote(daemon_rig, "Scribe/start.md")
        assert start["reason"] == "Scribe: on enable, by itself"
        before, run = await post(daemon_rig, "/api/scribe/lines", {"text": "Beans.\n"})
        assert (before, run) == (None, (await run_that_wrote(daemon_rig, "Scribe/line.md"))["id"])

        count = len(await runs(daemon_rig))
        await post(daemon_rig, "/api/scribe/nothing")
        assert len(await runs(daemon_rig)) == count, "it changed nothing"
        newest = (await runs(daemon_rig, "?all=true"))[0]
        assert (newest["agent"], newest["outcome"]) == ("module:scribe", "unchanged")

        for one in (run, start["id"]):
            await undo(daemon_rig, one)
        assert not list((vault / "Scribe").glob("*.md"))

        # a part of a call that is a run of its own is undone alone, or with the call
        _, alone = await post(daemon_rig, "/api/scribe/letters", {"text": "Dear Kim.\n"})
        assert await undo(daemon_rig, alone) == ["Scribe/fact.md"]
        assert (letter.read_text(), fact.exists()) == (f"{mark}Dear Kim.\n", False)
        whole, _ = await post(daemon_rig, "/api/scribe/letters", {"text": "Dear Jo.\n"})
        assert await undo(daemon_rig, whole) == ["Scribe/fact.md", "Scribe/letter.md"]
        assert (letter.read_text(), fact.exists()) == (f"{mark}Dear Kim.\n", False)
