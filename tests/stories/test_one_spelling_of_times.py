"""Every time that a program is told, in an event, an answer or the output of a command, is RFC 3339
in UTC with a `Z`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.api.calls import get, key_of, post
from tests.cli.command_line import CommandLine
from tests.stories.daemon_rig import Live, note, save

TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?\S*")
UTC_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
LISTINGS = (
    *(
        "status",
        "watches",
        "tasks",
        "runs",
        "usage",
        "doctor",
        "audit",
        "permissions list",
        "agents list",
        "suggestions list --all",
    ),
    *(
        "keys list",
        "hooks list",
        "hooks history",
        "modules list",
        "modules status ticker",
        "history AGENTS.md",
        "why AGENTS.md",
    ),
    *("auth status", "contexts migrate", "bubble plan Projects/garden/AGENTS.md"),
)
MANIFEST = "name: ticker\nversion: 0.1.0\nmodule: module.py\nschedules: [{every: 1h}]\n"
MODULE = '''"""Ticker."""

from datetime import UTC, datetime, timedelta, timezone

from parachuted.modules import Module, route, schedule


class Ticker(Module):
    @route("GET", "/now")
    async def now(self):
        return {"at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))), datetime(2026, 1, 2, tzinfo=UTC): 1}

    @schedule(every="1h")
    async def tick(self):
        """Do nothing."""
'''  # noqa: E501


def misspelled(value: object, where: str) -> Iterator[str]:
    """Texts that are a time, whole, and are spelled otherwise."""
    for name, one in (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list | tuple)
        else ()
    ):
        yield from misspelled(name, where)
        yield from misspelled(one, f"{where}.{name}")
    if isinstance(value, str) and TIME.fullmatch(value) and not UTC_TIME.fullmatch(value):
        yield f"{where}: {value}"


async def test_events_answers_and_commands_spell_times_in_one_way(
    live: Live, vault: Path, home: Path
):
    save(vault / "AGENTS.md", note("All", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    save(vault / "Modules/ticker/manifest.yaml", MANIFEST)
    save(vault / "Modules/ticker/module.py", MODULE)
    script = home / "hooks/on-task-finished.sh"
    script.parent.mkdir(mode=0o700)
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o700)
    command_line = CommandLine(home=home, vault=vault, folder=vault.parent)
    async with live() as daemon_rig:
        shown = await get(daemon_rig, "/api/modules/ticker/diff")
        approval = {"hash": shown["hash"], "trust": "trusted"}
        await post(daemon_rig, "/api/modules/ticker/approve", approval)
        save(vault / "Projects/garden/AGENTS.md", note("Garden", focus="- sow"))
        await daemon_rig.settled()
        key_of(daemon_rig, "vault:read")
        document = await get(daemon_rig, "/api/openapi.json")
        wrong = [one for event in daemon_rig.events for one in misspelled(event.data, event.event)]
        for path, calls in document["paths"].items():
            asked = [
                call for call in calls.get("get", {}).get("parameters", []) if call["required"]
            ]
            content = calls.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
            if (
                "application/json" in content
                and "{" not in path
                and all(one["name"] == "path" for one in asked)
            ):
                wrong += misspelled(
                    await get(daemon_rig, f"{path}?path=AGENTS.md" if asked else path), path
                )
        for words in LISTINGS:
            done = await asyncio.to_thread(command_line, *words.split(), "--json")
            assert done.stdout, done
            wrong += misspelled(json.loads(done.stdout), words)
        assert daemon_rig.reported("task.queued")
        assert (await get(daemon_rig, "/api/ticker/now"))["at"] == "2026-01-02T01:04:05Z"

    assert not wrong, "\n".join(wrong)
