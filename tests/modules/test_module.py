"""Module: what its class inherits reaches the services, and nothing that is no JSON leaves it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import PurePosixPath

import pytest

from parachuted.errors import ModuleFailedError
from parachuted.modules import Module
from tests.modules.small_modules import StubServices


class Greeter(Module):
    provides = ("GreetInterface",)


async def test_what_it_publishes_is_json_by_then():
    paper = StubServices()
    greeter = Greeter(paper)
    at, path = datetime(2026, 1, 5, tzinfo=UTC), PurePosixPath("a/b.md")
    greeter.publish("greeter.met", at=at, path=path, names=("Kim",))
    greeter.publish("greeter.met", event="one", name="two")
    with pytest.raises(ModuleFailedError, match="a Greeter; return"):
        greeter.publish("greeter.met", who=greeter)

    assert paper.published == [
        ("greeter.met", {"at": "2026-01-05T00:00:00Z", "path": "a/b.md", "names": ["Kim"]}),
        ("greeter.met", {"event": "one", "name": "two"}),
    ]


def test_importing_it_loads_neither_the_web_server_nor_an_agent():
    """Nor does what knows the declaration."""
    code = (
        "import json, sys, parachuted.modules; print(json.dumps(sorted(sys.modules)))\n"
        "import parachuted.modules.registry.declaration; print('aiohttp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded, has_server = done.stdout.splitlines()
    heavy = {"aiohttp", "claude_agent_sdk", "parachuted.api", "cryptography"}
    assert heavy & set(json.loads(loaded)) == set()
    assert has_server == "False"
