"""A client that a generator made of our document, with nothing added by hand, does what apps do."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest

from tests.api.calls import get
from tests.stories.daemon_rig import DaemonRig, save

PROGRAM = (sys.executable, "-m", "openapi_python_client")
NAME = "made_client"
CONFIG = {"post_hooks": [], "content_type_overrides": {"text/markdown": "application/octet-stream"}}
NOTE = "Projects/garden/AGENTS.md"


class Generated:
    """The client, and its calls by operation."""

    def __init__(self, url: str) -> None:
        self.client = self.part("client").Client(base_url=url)

    async def __aenter__(self) -> Self:
        await self.client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.client.__aexit__(*error)

    @staticmethod
    def part(name: str) -> ModuleType:
        return importlib.import_module(f"{NAME}.{name}")

    def model(self, name: str) -> Any:
        return getattr(self.part("models"), name)

    async def call(self, operation: str, *values: object, **more: object) -> Any:
        """The answer of a call of the vault: its status and its parsed body."""
        return await self.part(f"api.vault.{operation}").asyncio_detailed(
            *values, client=self.client, **more
        )


async def generated(
    daemon_rig: DaemonRig, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Generated:
    """Made of what the daemon says of itself.

    What the generator does not understand it warns of: nothing.
    """
    save(folder / "openapi.json", json.dumps(await get(daemon_rig, "/api/openapi.json")))
    save(folder / "config.yaml", json.dumps(CONFIG))
    options = (
        "--path",
        "openapi.json",
        "--config",
        "config.yaml",
        "--output-path",
        NAME,
        "--meta",
        "none",
        "--fail-on-warning",
    )
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        "generate",
        *options,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    reported = (await process.communicate())[0].decode()
    assert process.returncode == 0, reported
    monkeypatch.syspath_prepend(folder)
    return Generated(daemon_rig.url)


async def test_a_generated_client_reads_and_patches_and_understands_a_conflict(
    vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon_rig: DaemonRig
):
    text = "# Garden\n\n## Facts\nBeans.\n"
    save(vault / NOTE, text)
    async with await generated(daemon_rig, tmp_path / "made", monkeypatch) as api:
        read = await api.call("get_notes_by_path", NOTE)
        assert (read.status_code, read.parsed.title) == (200, "Garden")
        assert read.parsed.sections[1].content == "Beans.\n"
        assert isinstance(read.parsed.modified, datetime)

        async def patch(content: str, digest: str) -> Any:
            body = api.model("PatchNoteRequest")(section="Facts", content=content)
            return await api.call("patch_notes_by_path", NOTE, body=body, if_match=f'"{digest}"')

        first = await patch("Peas.", read.parsed.hash_)
        assert (first.status_code, first.parsed.changed) == (200, True)
        second = await patch("Lettuce.", read.parsed.hash_)
        assert (second.status_code, type(second.parsed).__name__) == (409, "Error")
        conflict = second.parsed.conflict
        assert (conflict.base, conflict.theirs) == (text, (vault / NOTE).read_text())
        again = await patch("Lettuce.", conflict.hash_)
        assert (again.status_code, (vault / NOTE).read_text()) == (
            200,
            text.replace("Beans", "Lettuce"),
        )
        got = await api.call("get_files_by_path", NOTE, range_="bytes=0-3")
        assert (got.status_code, got.parsed.payload.read()) == (206, b"# Ga")
