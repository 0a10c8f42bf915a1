"""Schemathesis holds the API to its own description: what may be sent is answered as is said, and
nothing that is sent breaks it.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from itertools import product
from pathlib import Path

import aiohttp
import pytest
from jsonschema import Draft202012Validator
from yarl import URL

from tests.api.calls import get
from tests.api.http.test_module_paths import BOXED
from tests.api.routes.test_modules import EXAMPLES, install, run_module
from tests.stories.daemon_rig import DaemonRig, Live, note, save

PROGRAM = Path(sys.executable).with_name("schemathesis")
LEFT_OUT = (
    # this machine needs no key: test_app_scopes.py tries every call without
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
    *("a%2Fb.md", "a%20b.md", "%C3%BCml%C3%A4ut.md", "%F0%9F%98%80.md", "..", "%2e%2e%2fx.md"),
    *("x%00.md", "%", "%zz", "%F0%28.md", "x" * 300),
)
ODD_HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"If-Match": '"x"', "If-None-Match": 'W/"y"', "Range": "bytes=9-2"},
    {"If-Match": "*", "If-None-Match": "*", "Range": "bytes=-0"},
)


async def test_odd_names_and_conditions_are_answered_as_the_description_says(
    vault: Path, daemon_rig: DaemonRig
):
    save(vault / "AGENTS.md", note("All"))
    wrong = []
    document = await get(daemon_rig, "/api/openapi.json")
    described = Described(document)
    async with aiohttp.ClientSession() as session:
        for path, calls in document["paths"].items():
            for method, name in product(calls, (*ODD_NAMES, "AGENTS.md") if "{" in path else ()):
                url = URL(daemon_rig.url + re.sub(r"\{\w+\}", name, path), encoded=True)
                for headers in ODD_HEADERS:
                    sent = {"headers": headers, "allow_redirects": False}
                    async with session.request(method, url, **sent) as answer:
                        problem = described.problem(method, path, answer, await answer.read())
                    if problem:
                        wrong.append(f"{method} {url} {headers}: {answer.status}: {problem}")

    assert not wrong, "\n".join(wrong)


class Described:
    """What the description says of answers, each schema read once."""

    def __init__(self, document: dict) -> None:
        self._document = document
        self._checkers: dict[tuple[str, str, int], Draft202012Validator] = {}

    def problem(
        self, method: str, path: str, answer: aiohttp.ClientResponse, body: bytes
    ) -> str | None:
        """What of an answer is not in the description."""
        said = self._document["paths"][path][method]["responses"].get(str(answer.status))
        if said is None:
            return "this status is not described"
        if not body or answer.content_type != "application/json":
            return None
        checker = self._checkers.get((method, path, answer.status))
        if checker is None:
            if "$ref" in said:
                said = self._document["components"]["responses"][said["$ref"].rpartition("/")[2]]
            if "application/json" not in said.get("content", {}):
                return "JSON is not described"
            schema = said["content"]["application/json"]["schema"]
            whole = {**schema, "components": self._document["components"]}
            checker = self._checkers[method, path, answer.status] = Draft202012Validator(whole)
        errors = checker.iter_errors(json.loads(body))
        return next((f"{error.json_path}: {error.message}" for error in errors), None)


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
        f"--phases=examples,coverage{',fuzzing' if torture else ''}",
        f"--exclude-checks={','.join(LEFT_OUT)}",
        *(f"--exclude-path={path}" for path in NOT_CALLED),
        *("--max-examples=200", "--seed=1", "--no-shrink", "--continue-on-failure"),
        *("--request-timeout=60", "--warnings=off", "--no-color"),
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
