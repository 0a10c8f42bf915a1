"""Commands of modules, as typed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.modules.small_modules import write_module
from tests.stories.daemon_rig import Live

BODY = """
from datetime import date
from typing import Annotated
from pydantic import Field
from parachuted.modules import command
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


@pytest.fixture
def command_line(home: Path, vault: Path):
    found = CommandLine(home=home, vault=vault, folder=home.parent)
    found.environ["PARACHUTE_VAULT"] = str(vault)

    def run(*words: str) -> tuple[int, str]:
        done = found(*words)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    return run


def test_without_a_daemon_a_modules_command_says_so(command_line, home: Path):
    code, said = command_line("garden", "add", "beans")
    assert (code, "unknown command 'garden'" in said) == (2, True), said

    home.mkdir(mode=0o700, exist_ok=True)
    (home / "modules.yaml").write_text("modules:\n  garden: {enabled: true}\n")
    (home / "modules.yaml").chmod(0o600)
    for words in (("garden", "add", "beans"), ("daily", "add", "Sowed.")):
        code, said = command_line(*words)
        assert (code, "No daemon is running; start one" in said) == (3, True), said


async def test_a_modules_command_is_carried_out_by_the_daemon(
    command_line, live: Live, vault: Path
):
    write_module(vault / "Modules" / "garden", BODY, name="garden")
    write_module(vault / "Modules" / "runs-of", BODY, name="runs-of")
    async with live() as daemon_rig:

        async def type_(*words: str) -> tuple[int, str]:
            return await asyncio.to_thread(command_line, *words)

        for words in (("garden", "say"), ("doctor",)):
            said = (await type_(*words))[1]
            assert "waits for your approval" in said
            assert "`parachute modules approve garden`" in said
            assert "All is well" not in said
        trust = daemon_rig.daemon.modules.trust
        trust.approve("garden", trust.consent("garden").digest, trust="trusted")
        await daemon_rig.daemon.modules.manager.sync()

        assert await type_("garden", "say") == (0, "hello\n")
        assert await type_("garden", "say", "--json") == (0, '"hello"\n')
        code, said = await type_(
            "garden", "add", "beans", "--words", "a", "b", "--beds", "3", "--wet", "--json"
        )
        assert json.loads(said) == {"title": "beans", "words": ["a", "b"], "beds": 3, "wet": True}
        assert code == 0
        assert await type_("garden", "add", "beans", "--words", "a", "b", "--wet") == (
            0,
            "title: beans\nwords:\n  a\n  b\nbeds: 1\nwet: yes\n",
        )
        assert await type_("garden", "show", "2026-10-01") == (0, "12:00  2026-10-01\n")
        assert await type_("garden", "show", "--day", "2026-10-01", "--json") == (
            0,
            '{\n  "day": "2026-10-01"\n}\n',
        )
        assert await type_("garden", "show") == (0, "12:00  None\n")
        code, said = await type_("garden", "show", "--day", "foo")
        assert (code, "'foo' is not a day; write it as YYYY-MM-DD" in said) == (2, True), said
        assert await type_("garden", "add", "-") == (0, "beds: 1\nwet: no\n"), "stdin is empty"
        code, said = await type_("daily", "add", "x")
        assert (code, "parachute://daily --trust trusted` installs it" in said) == (1, True), said
        code, said = await type_("garden", "--help")
        assert (code, "100% of it" in said, "Say hello." in said) == (0, True, True), said
        code, said = await type_("garden", "add", "--beds", "many", "x")
        assert (code, "invalid int" in said) == (2, True), said
        code, said = await type_("garden", "dig")
        assert (code, "unknown command 'dig'" in said) == (2, True), said
        for words in (("garden", "status"), ("garden",)):
            code, said = await type_(*words)
            assert (code, "there is no bed" in said) == (1, True), said
        assert (await type_("status"))[1].startswith("parachuted "), "its own comes first"
