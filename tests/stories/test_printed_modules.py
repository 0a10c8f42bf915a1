"""The specification's examples of modules, as printed, run after the edits of docs/modules.md."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from parachuted.agents.job import Job
from parachuted.testing import Block, ScriptedBackend, say
from tests.api.calls import get, post
from tests.api.routes.test_modules import install
from tests.modules.registry.test_environment import make_wheel
from tests.stories.daemon_rig import DaemonRig, Live, save
from tests.stories.official_modules import install_official

ROOT = Path(__file__).parent.parent.parent
DOCS = (ROOT / "docs/modules.md").read_text()
PRINTED = dict(
    re.findall(
        r"^## (\S+)\n\n```\w+\n(.*?)^```$",
        (ROOT / "tests/data/modular-computer-prd.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
)
EDITS = re.findall(r"^\| (\S+) \| `(.+?)` \| (?:`(.+?)` )?\|$", DOCS, re.MULTILINE)
ADDED = dict(re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", DOCS, re.DOTALL | re.MULTILINE))
EXAMPLE = ROOT / "docs/examples/telegram-bot"
NAME = "Kevin Regen Hub"
PLAN, OTHER = "Brain/projects/client-x.md", "Brain/projects/other.md"


def edited(module: str) -> str:
    text = PRINTED[module]
    for where, printed, here in EDITS:
        if where in (module, "all"):
            assert printed in text, f"docs/modules.md edits what {module} does not say: {printed}"
            text = text.replace(printed, here)
    return text


def write(folder: Path, module: str) -> Path:
    save(folder / "manifest.yaml", ADDED[module])
    save(folder / "module.py", edited(module))
    return folder


async def runs(rig: DaemonRig, name: str) -> dict[str, Any]:
    """Its status; nothing of it has failed."""
    module = await get(rig, f"/api/modules/{name}")
    assert (module["status"], module["problem"]) == ("running", None)
    return module


async def test_the_printed_telegram_bot_answers_within_what_a_person_narrows(
    live: Live, home: Path, vault: Path
):
    async def reads(job: Job) -> list[Block]:
        """Says which notes it could read."""
        tools = {tool.name: tool for tool in job.tools}
        could = [
            path
            for path in (PLAN, OTHER)
            if "read_note" in tools and not (await tools["read_note"].call({"path": path})).is_error
        ]
        return [say(" ".join(could) or "nothing")]

    for path in (PLAN, OTHER):
        save(vault / path, "Beans.\n")
    async with live(ScriptedBackend(reads)) as rig:
        runs_here, printed = (EXAMPLE / "module.py").read_text(), edited("telegram-bot")
        assert [*filter(None, runs_here.split("\n"))] == [*filter(None, printed.split("\n"))]
        await install(rig, EXAMPLE)
        registry = home / "modules.yaml"
        as_approved = registry.read_text()

        async def narrowed(agents: str) -> None:
            before = len(rig.reported("module.enabled"))
            save(registry, as_approved.replace("telegram-bot:\n", f"telegram-bot:\n{agents}"))
            await rig.until(lambda: len(rig.reported("module.enabled")) > before)

        async def reads_of(question: str) -> str:
            asked = {"message": {"text": question}}
            return str((await post(rig, "/api/telegram-bot/webhook", asked))["reply"])

        assert await reads_of("What is planned?") == PLAN
        await narrowed(PRINTED["modules.yaml"])
        assert await reads_of("And now?") == PLAN
        for responder, expected in (
            ("{paths: ['Brain/**'], capabilities: [read, write]}", PLAN),
            ("{paths: [Brain/projects/other.md]}", "nothing"),
            ("{capabilities: []}", "nothing"),
        ):
            await narrowed(f"    agents: {{responder: {responder}}}\n")
            assert await reads_of("And now?") == expected
        assert (await runs(rig, "telegram-bot"))["notes"] == []
        await narrowed("    agents: {respnder: {capabilities: []}}\n")
        assert (await runs(rig, "telegram-bot"))["notes"] == [
            "modules.yaml narrows respnder, and it has no such agent: it has admin, responder"
        ]


async def test_the_printed_journal_links_what_an_entry_names_and_reflects_on_it(
    live: Live, vault: Path, tmp_path: Path
):
    save(vault / "Brain/entities/people/kevin.md", f"---\ntype: person\n---\n# {NAME}\n")
    async with live(backend := ScriptedBackend([say("A full day.")])) as rig:
        await install_official(rig, "brain", "daily")
        name = (await install(rig, write(tmp_path / "journal", "daily")))["name"]
        entry = {"content": f"Met with {NAME} about the curriculum."}
        written = await post(rig, "/api/daily/entries", entry)
        await rig.until(lambda: [job for job in backend.jobs if "Reflect on" in job.prompt])
        path = re.search(r"Reflect on (.+\.md)", backend.jobs[-1].prompt)
        assert path is not None
        await rig.until(lambda: "mentions:" in (vault / path[1]).read_text())
        assert written["id"] in (vault / path[1]).read_text()

        query, asked = f"{rig.url}/api/{name}/query", {"message": "How was it?"}
        async with aiohttp.ClientSession() as client, client.post(query, json=asked) as answer:
            assert "A full day." in await answer.text()
        assert await get(rig, f"/api/{name}/entries") is None
        assert (await runs(rig, name))["tools"] == ["daily-journal"]


async def test_the_printed_brain_is_installed_with_its_packages_and_serves(
    live: Live, vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for package, version in (("pyyaml", "6.0"), ("aiofiles", "23.0")):
        make_wheel(tmp_path / "wheels", name=package, version=version)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    folder = tmp_path / "brain"
    shutil.copytree(ROOT / "tests/modules/examples/brain", folder)
    save(folder / "manifest.yaml", PRINTED["brain"] + ADDED["brain"])
    save(vault / "Brain/entities/Kevin.md", "Advises.\n")

    async with live(ScriptedBackend([])) as rig:
        status = await runs(rig, (await install(rig, folder))["name"])
        assert (status["agents"], status["provides"]) == (["indexer"], ["BrainInterface"])
        assert sorted(status["tools"]) == ["brain_resolve", "brain_search"]
        (found,) = (await get(rig, "/api/brain/entities"))["entities"]
        assert found["name"] == "Kevin"
