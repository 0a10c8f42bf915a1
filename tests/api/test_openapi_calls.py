"""Schemathesis holds the API to its own description: what may be sent is answered as is said, and nothing that is sent breaks it."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.stories.life import Live, note, save

PROGRAM = Path(sys.executable).with_name("schemathesis")
LEFT_OUT = (
    "ignored_auth",  # this machine needs no key, and many wrong ones get 429: test_app_scopes.py tries every call without
    "positive_data_acceptance",  # a text may still be no path of the vault, which a schema cannot say
    "allow_header_conformance",  # `notes/a/backlinks` may be a call on the note `a`, and one on a note of that name
)
# The first has no end, the second changes who needs a key, the others end the daemon.
NOT_CALLED = ("/api/events", "/api/auth/settings", "/supervisor/server/stop", "/supervisor/server/restart")


@pytest.mark.timeout(120, func_only=True)
async def test_the_api_keeps_to_its_own_description(live: Live, vault: Path, tmp_path: Path, torture: bool):  # noqa: FBT001
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    save(vault / "AGENTS.md", note("All", watch=["Projects/*"]))
    options = (
        *(
            "--phases=examples,coverage,fuzzing",
            f"--exclude-checks={','.join(LEFT_OUT)}",
            *(f"--exclude-path={path}" for path in NOT_CALLED),
        ),
        *(f"--max-examples={200 if torture else 2}", "--seed=1", "--no-shrink", "--continue-on-failure", "--request-timeout=20"),
        *("--warnings=off", "--no-color"),
    )
    async with live() as life:
        process = await asyncio.create_subprocess_exec(
            PROGRAM, "run", f"{life.url}/api/openapi.json", *options, cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        told = (await process.communicate())[0].decode()

    assert process.returncode == 0, told
    assert int(re.search(r"(\d+) generated", told)[1]) > 500
