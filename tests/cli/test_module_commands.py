"""Commands and settings of modules, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parachuted.cli.show import NOTHING, lines_of
from tests.cli.command_line import CommandLine
from tests.modules.small_modules import write_module
from tests.stories.daemon_rig import DaemonRig, Live

BODY = """
from dataclasses import dataclass
from datetime import date
from typing import Annotated
from pydantic import Field
from parachuted.modules import command
@dataclass
class Settings:
    layout: __import__("typing").Literal["journals", "entries"] = "journals"
    days: int = 3
@command("add", help="Add a bed. 100% of it.")
async def add(self, title: str, words: list[str] = (), beds: int = 1, wet: bool = False):
    return {"title": title, "words": list(words), "beds": beds, "wet": wet}
@command("say")
async def say(self):
    "Say hello."
    return "hello"
@command("show")
async def show(
    self,
    day: Annotated[date | None, Field(json_schema_extra={"is_word": True})] = None,
    *,
    as_text: bool = False,
):
    return f"12:00  {day}" if as_text else {"day": str(day)}
@command("status")
async def fail(self):
    from parachuted.errors import NotFoundError
    raise NotFoundError("there is no bed")
"""
ENTRY = {
    "id": "e1",
    "created_at": "10:30",
    "content": "Sowed.\n\nThen rain.",
    "metadata": {"type": "text", "is_private": False},
    "links": ["a", "b"],
    "audio": None,
    "tags": [],
}
LINES = """\
id: e1
created at: 10:30
content:
  Sowed.

  Then rain.
metadata:
  type: text
  is private: no
links:
  a
  b"""


@pytest.fixture
def command_line(home: Path, vault: Path) -> CommandLine:
    environ = {"PARACHUTE_VAULT": str(vault)}
    return CommandLine(home=home, vault=vault, folder=home.parent, environ=environ)


async def approve(daemon_rig: DaemonRig) -> None:
    trust = daemon_rig.daemon.modules.trust
    trust.approve("garden", trust.consent("garden").digest, trust="trusted")
    await daemon_rig.daemon.modules.manager.sync()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ENTRY, LINES),
        ([ENTRY, {"id": "e2"}], f"{LINES}\n\nid: e2"),
        ({"path": "a.md", "count": 0}, "path: a.md\ncount: 0"),
        ("two\nlines", "two\nlines"),
        (["one", "two"], "one\ntwo"),
        ([[1, 2], [3]], "1\n2\n\n3"),
        (True, "yes"),
        ([], NOTHING),
        (None, ""),
    ],
)
def test_an_answer_is_readable_without_json(answer: object, said: str):
    assert "\n".join(lines_of(answer)) == said


def test_without_a_daemon_a_modules_command_says_so(command_line: CommandLine):
    assert "unknown command 'garden'" in command_line.fails(2, "garden", "add", "beans")

    registry = command_line.home / "modules.yaml"
    registry.parent.mkdir(mode=0o700, exist_ok=True)
    registry.write_text("modules:\n  garden: {enabled: true}\n")
    registry.chmod(0o600)
    for name in ("garden", "daily"):
        assert "No daemon is running; start one" in command_line.fails(3, name, "add", "x")
    set_days = ("config", "set", "modules.garden.days", "1")
    assert "No daemon is running; start one" in command_line.fails(3, *set_days)


async def test_a_modules_command_is_carried_out_by_the_daemon(
    command_line: CommandLine, live: Live, vault: Path
):
    type_ = command_line.types
    write_module(vault / "Modules" / "garden", BODY, name="garden")
    write_module(vault / "Modules" / "runs-of", BODY, name="runs-of")
    async with live() as daemon_rig:
        for words in (("garden", "say"), ("doctor",)):
            said = (await type_(*words))[1]
            assert "waits for your approval" in said
            assert "`parachute modules approve garden`" in said
            assert "All is well" not in said
        await approve(daemon_rig)

        beans = ("garden", "add", "beans", "--words", "a", "b", "--wet")
        shown = "title: beans\nwords:\n  a\n  b\nbeds: 1\nwet: yes\n"
        for words, said in (
            (("garden", "say"), "hello\n"),
            (("garden", "say", "--json"), '"hello"\n'),
            (beans, shown),
            (("garden", "show", "2026-10-01"), "12:00  2026-10-01\n"),
            (("garden", "show", "--day", "2026-10-01", "--json"), '{\n  "day": "2026-10-01"\n}\n'),
            (("garden", "show"), "12:00  None\n"),
            (("garden", "add", "-"), "beds: 1\nwet: no\n"),  # stdin is empty
        ):
            assert await type_(*words) == (0, said)
        code, said = await type_(*beans, "--beds", "3", "--json")
        assert json.loads(said) == {"title": "beans", "words": ["a", "b"], "beds": 3, "wet": True}
        for words, code, said in (
            (("garden", "show", "--day", "foo"), 2, "'foo' is not a day; write it as YYYY-MM-DD"),
            (("daily", "add", "x"), 1, "parachute://daily --trust trusted` installs it"),
            (("garden", "--help"), 0, "100% of it"),
            (("garden", "--help"), 0, "Say hello."),
            (("garden", "add", "--beds", "many", "x"), 2, "invalid int"),
            (("garden", "dig"), 2, "unknown command 'dig'"),
            (("garden", "status"), 1, "there is no bed"),
            (("garden",), 1, "there is no bed"),
        ):
            done = await type_(*words)
            assert (done[0], said in done[1]) == (code, True), done


async def test_a_modules_settings_are_listed_set_refused_and_taken_back(
    command_line: CommandLine, live: Live, home: Path, vault: Path
):
    async def config(*words: str) -> tuple[int, str]:
        return await command_line.types("config", *words)

    write_module(vault / "Modules" / "garden", BODY, name="garden")
    async with live() as daemon_rig:
        await approve(daemon_rig)
        manager = daemon_rig.daemon.modules.manager
        listed = {setting["key"]: setting for setting in json.loads((await config("--json"))[1])}
        assert listed["modules.garden.days"]["value"] == "3"
        assert "journals | entries" in listed["modules.garden.layout"]["means"]
        assert await config("get", "modules.garden.days") == (0, "3\n")
        assert (await config("set", "modules.garden.days", "7"))[0] == 0
        assert (await config("set", "modules.garden.layout", "entries"))[0] == 0
        assert await config("get", "modules.garden.days") == (0, "7\n")

        file = home / "modules.yaml"
        before = file.read_text()
        code, said = await config("set", "modules.garden.days", "many")
        assert (code, "config.days" in said, "is as it was" in said) == (2, True, True), said
        assert file.read_text() == before
        assert manager.approved("garden").config == {"days": 7, "layout": "entries"}
        code, said = await config("set", "modules.garden.dyas", "1")
        assert (code, "has no setting dyas" in said) == (2, True), said
        assert (await config("unset", "modules.garden.days"))[0] == 0
        assert manager.approved("garden").config == {"layout": "entries"}

        file.write_text(file.read_text().replace("layout: entries", "layout: diary"))
        problems = daemon_rig.daemon.watched.problems
        await daemon_rig.until(lambda: "module:garden" in problems.open)
        assert "modules.yaml: config.layout" in problems.open["module:garden"]
