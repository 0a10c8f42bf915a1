"""Schemathesis holds the API to its own description: what may be sent is answered as is said, and
nothing that is sent breaks it.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import aiohttp
import pytest
from jsonschema import Draft202012Validator
from yarl import URL

from tests.api.calls import get
from tests.api.http.test_module_paths import BOXED
from tests.api.routes.test_modules import EXAMPLES, install, run_module
from tests.stories.daemon_rig import Live, note, save

PROGRAM = Path(sys.executable).with_name("schemathesis")
LEFT_OUT = (
    # this machine needs no key, and many wrong ones get 429: test_app_scopes.py tries every call
    # without
    "ignored_auth",
    # a text may still be no path of the vault, which a schema cannot say
    "positive_data_acceptance",
    # `notes/a/backlinks` may be a call on the note `a`, and one on a note of that name
    "allow_header_conformance",
)
# The first has no end, the second changes who needs a key, the others end the daemon.
NOT_CALLED = (
    "/api/events",
    "/api/auth/settings",
    "/supervisor/server/stop",
    "/supervisor/server/restart",
)


ODD_NAMES = (
    "a%2Fb.md",
    "a%20b.md",
    "%C3%BCml%C3%A4ut.md",
    "%F0%9F%98%80.md",
    "..",
    "%2e%2e%2fx.md",
    "x%00.md",
    "%",
    "%zz",
    "%F0%28.md",
    "x" * 300,
)
ODD_HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"If-Match": '"x"', "If-None-Match": 'W/"y"', "Range": "bytes=9-2"},
    {"If-Match": "*", "If-None-Match": "*", "Range": "bytes=-0"},
)


async def test_odd_names_and_conditions_are_answered_as_the_description_says(
    live: Live, vault: Path
):
    save(vault / "AGENTS.md", note("All"))
    wrong = []
    async with live() as daemon_rig, aiohttp.ClientSession() as session:
        document = await get(daemon_rig, "/api/openapi.json")
        calls = [
            (method, path)
            for path, calls in document["paths"].items()
            for method in calls
            if "{" in path
        ]
        for method, path in calls:
            for name in (*ODD_NAMES, "AGENTS.md"):
                url = URL(daemon_rig.url + re.sub(r"\{\w+\}", name, path), encoded=True)
                for headers in ODD_HEADERS:
                    async with session.request(
                        method, url, headers=headers, allow_redirects=False
                    ) as answer:
                        problem = undescribed(
                            document,
                            document["paths"][path][method],
                            answer.status,
                            answer.content_type,
                            await answer.read(),
                        )
                    wrong += (
                        [f"{method} {url} {headers}: {answer.status}: {problem}"] if problem else []
                    )

    assert not wrong, "\n".join(wrong)


def undescribed(document: dict, call: dict, status: int, kind: str, body: bytes) -> str | None:
    """What of an answer is not in the description."""
    said = call["responses"].get(str(status))
    if said is None:
        return "this status is not described"
    if "$ref" in said:
        said = document["components"]["responses"][said["$ref"].rpartition("/")[2]]
    if not body or kind != "application/json":
        return None
    if kind not in said.get("content", {}):
        return "JSON is not described"
    schema = {**said["content"][kind]["schema"], "components": document["components"]}
    return next(
        (
            f"{error.json_path}: {error.message}"
            for error in Draft202012Validator(schema).iter_errors(json.loads(body))
        ),
        None,
    )


@pytest.mark.timeout(900, func_only=True)
async def test_the_api_keeps_to_its_own_description(
    live: Live,
    vault: Path,
    tmp_path: Path,
    torture: bool,  # noqa: FBT001
):
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    save(vault / "AGENTS.md", note("All", watch=["Projects/*"]))
    options = (
        *(
            f"--phases=examples,coverage{',fuzzing' if torture else ''}",
            f"--exclude-checks={','.join(LEFT_OUT)}",
            *(f"--exclude-path={path}" for path in NOT_CALLED),
        ),
        *(
            "--max-examples=200",
            "--seed=1",
            "--no-shrink",
            "--continue-on-failure",
            "--request-timeout=60",
        ),
        *("--warnings=off", "--no-color"),
    )
    async with live() as daemon_rig:
        await install(daemon_rig, EXAMPLES / "daily")
        await run_module(daemon_rig, tmp_path, "box", BOXED, manifest="mcp_tools: [box-find]\n")
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            "run",
            f"{daemon_rig.url}/api/openapi.json",
            *options,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        reported = (await process.communicate())[0].decode()

    assert process.returncode == 0, reported
    assert int(re.search(r"(\d+) generated", reported)[1]) > 500
