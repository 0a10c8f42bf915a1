"""`parachute config` and the settings of modules, as typed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.modules.small_modules import write_module
from tests.stories.daemon_rig import Live

BODY = """
from dataclasses import dataclass
@dataclass
class Settings:
    layout: __import__("typing").Literal["journals", "entries"] = "journals"
    days: int = 3
@route("GET", "/")
async def show(self):
    return {"layout": self.settings.layout, "days": self.settings.days}
"""


@pytest.fixture
def command_line(home: Path, vault: Path):
    found = CommandLine(home=home, vault=vault, folder=home.parent)
    found.environ["PARACHUTE_VAULT"] = str(vault)

    def run(*words: str) -> tuple[int, str]:
        done = found(*words)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    return run


async def test_a_modules_settings_are_listed_set_refused_and_taken_back(
    command_line, live: Live, home: Path, vault: Path
):
    write_module(vault / "Modules" / "garden", BODY, name="garden")
    async with live() as daemon_rig:

        async def type_(*words: str) -> tuple[int, str]:
            return await asyncio.to_thread(command_line, *words)

        trust = daemon_rig.daemon.modules.trust
        trust.approve("garden", trust.consent("garden").digest, trust="trusted")
        await daemon_rig.daemon.modules.manager.sync()

        listed = {one["key"]: one for one in json.loads((await type_("config", "--json"))[1])}
        assert listed["modules.garden.days"]["value"] == "3"
        assert "journals | entries" in listed["modules.garden.layout"]["means"]
        assert await type_("config", "get", "modules.garden.days") == (0, "3\n")

        file = home / "modules.yaml"
        before = file.read_text()
        code, said = await type_("config", "set", "modules.garden.days", "many")
        assert (code, "is as it was" in said, file.read_text()) == (2, True, before), said

        code, said = await type_("config", "set", "modules.garden.days", "7")
        assert code == 0, said
        assert (await type_("config", "set", "modules.garden.layout", "entries"))[0] == 0
        assert await type_("config", "get", "modules.garden.days") == (0, "7\n")
        assert daemon_rig.daemon.modules.manager.approved("garden").config == {
            "days": 7,
            "layout": "entries",
        }

        code, said = await type_("config", "set", "modules.garden.days", "many")
        assert (code, "config.days" in said, "is as it was" in said) == (2, True, True), said
        assert daemon_rig.daemon.modules.manager.approved("garden").config == {
            "days": 7,
            "layout": "entries",
        }
        code, said = await type_("config", "set", "modules.garden.dyas", "1")
        assert (code, "has no setting dyas" in said) == (2, True), said

        assert (await type_("config", "unset", "modules.garden.days"))[0] == 0
        assert daemon_rig.daemon.modules.manager.approved("garden").config == {"layout": "entries"}

        file.write_text(file.read_text().replace("layout: entries", "layout: diary"))
        await daemon_rig.until(lambda: "module:garden" in daemon_rig.daemon.watched.problems.open)
        problem = daemon_rig.daemon.watched.problems.open["module:garden"]
        line = next(
            number
            for number, text in enumerate(file.read_text().splitlines(), 1)
            if "layout: diary" in text
        )
        assert f"modules.yaml, line {line}: config.layout" in problem
