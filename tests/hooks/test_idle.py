"""Idle: a hook that can never run is listed with the reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import aiohttp
import pytest

from parachuted.events.catalog import CATALOG
from parachuted.hooks import Hook
from parachuted.hooks.responses import why_idle
from tests.hooks.serving import serving

SOURCES = Path(__file__).resolve().parents[2] / "parachuted"


@pytest.mark.parametrize(
    ("event", "keys", "idle"),
    [
        ("PreToolUse", {"matcher": "Write|Edit"}, None),
        ("PreToolUse", {"matcher": "Bash"}, None),
        ("PreToolUse", {"matcher": ".*"}, None),
        ("PreToolUse", {"matcher": "plan_trip"}, None),
        ("PreToolUse", {"matcher": "mcp__travel__plan_trip"}, None),
        (
            "PostToolUse",
            {"matcher": "TodoWrite|Task"},
            "its matcher 'TodoWrite|Task' fits no tool here",
        ),
        (
            "PreToolUse",
            {"matcher": "mcp__github__.*"},
            "its matcher 'mcp__github__.*' fits no tool here",
        ),
        ("PreToolUse", {"matcher": " "}, "its matcher ' ' fits no tool here"),
        ("write.before", {}, None),
        ("travel.trip.planned", {}, None),
        (
            "garden.bed.sown",
            {},
            (
                "nothing here fires garden.bed.sown, which the module garden publishes: it does "
                "not "
                "run"
            ),
        ),
        (
            "daily.entry.created",
            {},
            (
                "nothing here fires daily.entry.created, which the module daily publishes: it does "
                "not run"
            ),
        ),
        ("SessionEnd", {}, None),
        ("Notification", {"matcher": "permission_prompt"}, None),
    ],
)
async def test_the_list_of_hooks_says_which_never_run_and_why(
    event: str, keys: dict[str, str], idle: str | None, home: Path, vault: Path
):
    (home / "hooks.yaml").write_text(
        json.dumps({"hooks": {event: [{"type": "command", "command": "true", **keys}]}})
    )
    (home / "hooks.yaml").chmod(0o600)
    async with (
        serving(home, vault) as served,
        aiohttp.ClientSession() as session,
        session.get(f"{served.url}/api/hooks") as answer,
    ):
        (one,) = (await answer.json())["hooks"]

    assert one["idle"] == idle


def test_without_a_daemon_nothing_is_said_of_modules():
    assert why_idle(Hook(id="h", event="garden.bed.sown", command="x"), None) is None


def test_every_event_of_the_core_is_fired_somewhere():
    texts = [
        path.read_text()
        for path in SOURCES.rglob("*.py")
        if path.name != "catalog.py" and "hooks" not in path.parts
    ]
    fired = {
        name for name in CATALOG if any(re.search(rf'"{re.escape(name)}"', text) for text in texts)
    }
    written = {
        "write.before",
        "file.created",
        "file.modified",
        "file.moved",
        "file.deleted",
    }  # in hooks/, and as file.{change.kind}

    assert {
        name for name, kind in CATALOG.items() if kind.publisher is None
    } - fired - written == set()
