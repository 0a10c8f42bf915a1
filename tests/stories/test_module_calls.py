"""What a module writes in one call is one run: it is listed, explained and undone as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parachuted.home_files.bundled import bundled_folder
from tests.api.calls import call, get, post
from tests.api.routes.test_modules import install
from tests.modules.small_modules import write_module
from tests.stories.daemon_rig import DaemonRig, Live, save

KIM, JO = "Brain/entities/people/kim-lee.md", "Brain/entities/people/jo-park.md"
PERSON = "# {}\n\nGrows beans.\n"

SCRIBE = """
async def on_enable(self):
    await self.vault.write("Scribe/start.md", "Started.\\n")

@route("POST", "/lines")
async def add(self, text: str):
    before = self.current_call.own_run
    await self.vault.write("Scribe/line.md", text)
    return [before, self.current_call.own_run]
"""
SCRIBES = "permissions:\n  read: [Scribe/**]\n  write: [Scribe/**]\n"


async def with_modules(daemon_rig: DaemonRig, *names: str) -> None:
    for name in names:
        await install(daemon_rig, bundled_folder("modules") / name, "trusted")


async def run_that_wrote(daemon_rig: DaemonRig, path: str) -> dict[str, object]:
    """The newest run that wrote that file, whole."""
    for run in (await get(daemon_rig, "/api/runs"))["runs"]:
        whole = await get(daemon_rig, f"/api/runs/{run['id']}")
        if path in [one["path"] for one in whole["wrote"]]:
            return whole
    raise AssertionError(f"no run wrote {path}")


async def test_an_entry_over_the_api_is_a_run_that_undo_takes_back(live: Live, vault: Path):
    async with live() as daemon_rig:
        await with_modules(daemon_rig, "daily")
        made = await post(daemon_rig, "/api/daily/entries", {"content": "Planted the beans."})
        run = await run_that_wrote(daemon_rig, made["path"])

        assert run["agent"] == "module:daily"
        assert run["outcome"] == "changed"
        assert run["reason"].startswith("Daily: create entry, asked for by")
        why = await get(daemon_rig, f"/api/why?path={made['path']}")
        assert {line["run"] for line in why["lines"] if "beans" in line["text"]} == {run["id"]}

        undone = await post(daemon_rig, f"/api/runs/{run['id']}/undo")
        assert undone["paths"] == [made["path"]]
        assert not (vault / made["path"]).exists()


async def test_mentions_that_followed_from_an_entry_are_undone_with_it(live: Live, vault: Path):
    save(vault / KIM, PERSON.format("Kim Lee"))
    async with live() as daemon_rig:
        await with_modules(daemon_rig, "brain", "daily")
        body = {"content": "Lunch with Kim Lee."}
        made = await post(daemon_rig, "/api/daily/entries", body)
        path = vault / made["path"]
        await daemon_rig.until(lambda: "mentions:" in path.read_text())
        await daemon_rig.settled()
        run = await run_that_wrote(daemon_rig, made["path"])
        first = [*run["parents"], run["id"]][0]
        await post(daemon_rig, f"/api/runs/{first}/undo")
        assert not path.exists()


async def test_mentions_in_an_entry_typed_in_an_editor_are_undone_alone(live: Live, vault: Path):
    save(vault / KIM, PERSON.format("Kim Lee"))
    day = "Daily/journals/2026-02-24.md"
    async with live() as daemon_rig:
        await with_modules(daemon_rig, "brain", "daily")
        entry = "# Noon\n\nHad lunch with Kim Lee.\n"
        save(vault / day, entry)
        await daemon_rig.until(lambda: "mentions:" in (vault / day).read_text())
        await daemon_rig.settled()
        run = await run_that_wrote(daemon_rig, day)
        assert "after an event" in run["reason"]
        await post(daemon_rig, f"/api/runs/{run['id']}/undo")
        assert (vault / day).read_text() == entry


async def test_runs_of_modules_count_in_no_budget_of_agents(live: Live, vault: Path):
    async with live() as daemon_rig:
        await with_modules(daemon_rig, "daily")
        await post(daemon_rig, "/api/daily/entries", {"content": "Planted the beans."})
        assert daemon_rig.daemon.watched.history.count_runs() == 0


LETTERS = """
@route("POST", "/letters")
async def send(self, text: str):
    from parachuted.modules import NoteChange
    await self.vault.write("Scribe/letter.md", text)
    changes = [NoteChange("Scribe/fact.md", None, text="A fact.\\n")]
    return [self.current_call.own_run, await self.vault.edit_all(changes, reason="a fact")]
"""


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_what_a_call_writes_as_a_run_of_its_own_is_undone_alone_or_with_the_call(
    live: Live, vault: Path, tmp_path: Path, trust: str
):
    module = write_module(tmp_path / "scribe", LETTERS, name="scribe", manifest=SCRIBES)
    letter, fact = vault / "Scribe/letter.md", vault / "Scribe/fact.md"
    mark = "---\norigin: stranger\n---\n" if trust == "untrusted" else ""
    async with live() as daemon_rig:
        await install(daemon_rig, module, trust)
        _, alone = await post(daemon_rig, "/api/scribe/letters", {"text": "Dear Kim.\n"})
        undone = await post(daemon_rig, f"/api/runs/{alone}/undo")
        assert undone["paths"] == ["Scribe/fact.md"]
        assert (letter.read_text(), fact.exists()) == (f"{mark}Dear Kim.\n", False)
        whole, _ = await post(daemon_rig, "/api/scribe/letters", {"text": "Dear Jo.\n"})
        undone = await post(daemon_rig, f"/api/runs/{whole}/undo")
        assert sorted(undone["paths"]) == ["Scribe/fact.md", "Scribe/letter.md"]
        assert (letter.read_text(), fact.exists()) == (f"{mark}Dear Kim.\n", False)


async def test_calls_that_changed_nothing_are_listed_only_when_all_are_asked_for(
    live: Live, vault: Path, tmp_path: Path
):
    idle = """
    @route("POST", "/lines")
    async def add(self):
        await self.vault.write("Scribe/line.md", "One.\\n")
        await self.vault.delete("Scribe/line.md")
    """
    folder = write_module(tmp_path / "scribe", idle, name="scribe", manifest=SCRIBES)
    async with live() as daemon_rig:
        await install(daemon_rig, folder, "trusted")
        await post(daemon_rig, "/api/scribe/lines")
        assert (await get(daemon_rig, "/api/runs"))["runs"] == []
        (run,) = (await get(daemon_rig, "/api/runs?all=true"))["runs"]
        assert (run["agent"], run["outcome"]) == ("module:scribe", "unchanged")


async def test_a_call_that_writes_nothing_is_not_a_run(live: Live, vault: Path):
    async with live() as daemon_rig:
        await with_modules(daemon_rig, "daily")
        before = len((await get(daemon_rig, "/api/runs"))["runs"])
        await get(daemon_rig, "/api/daily/entries")
        await call(daemon_rig, "PATCH", "/api/daily/entries/none", json={"content": "x"})
        assert len((await get(daemon_rig, "/api/runs"))["runs"]) == before


async def test_an_import_is_undone_whole_by_its_run(live: Live, vault: Path):
    entries = [
        {"uuid": str(day), "creationDate": f"2026-02-{day:02}T12:00:00Z", "text": f"Day {day}."}
        for day in (3, 4)
    ]
    save(vault / "Daily/import/Journal.json", json.dumps({"entries": entries}))
    async with live() as daemon_rig:
        await with_modules(daemon_rig, "daily")
        body = {"source": "Daily/import", "dry_run": False}
        done = await post(daemon_rig, "/api/daily/import", body)
        run = await run_that_wrote(daemon_rig, "Daily/journals/2026-02-03.md")
        assert (len(run["wrote"]), done["run"], done["added"]) == (2, run["id"], 2)
        await post(daemon_rig, f"/api/runs/{run['id']}/undo")
        assert not list((vault / "Daily/journals").glob("*.md"))


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_a_module_knows_its_calls_run_and_what_it_writes_when_enabled_is_one_too(
    live: Live, vault: Path, tmp_path: Path, trust: str
):
    folder = write_module(tmp_path / "scribe", SCRIBE, name="scribe", manifest=SCRIBES)
    async with live() as daemon_rig:
        await install(daemon_rig, folder, trust)
        start = await run_that_wrote(daemon_rig, "Scribe/start.md")
        assert start["reason"] == "Scribe: on enable, by itself"
        before, run = await post(daemon_rig, "/api/scribe/lines", {"text": "Beans.\n"})
        assert (before, run) == (None, (await run_that_wrote(daemon_rig, "Scribe/line.md"))["id"])

        for one in (run, start["id"]):
            await post(daemon_rig, f"/api/runs/{one}/undo")
        assert not list((vault / "Scribe").glob("*.md"))
