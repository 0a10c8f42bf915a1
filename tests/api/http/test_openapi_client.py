"""A client that a generator made of our document, with nothing added by hand, does what apps do."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import io
import json
import sys
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest

from tests.api.calls import get
from tests.stories.daemon_rig import DaemonRig, Live, save

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


async def test_a_generated_client_reads_patches_with_a_conflict_uploads_and_follows_events(
    live: Live, vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    save(vault / NOTE, "# Garden\n\n## Facts\nBeans.\n")
    async with (
        live() as daemon_rig,
        await generated(daemon_rig, tmp_path / "made", monkeypatch) as api,
    ):
        read = await api.call("get_notes_by_path", NOTE)
        assert (read.status_code, read.parsed.title, read.parsed.sections[1].content) == (
            200,
            "Garden",
            "Beans.\n",
        )
        assert isinstance(read.parsed.modified, datetime)

        events = await follow(api)
        patch = api.model("PatchNoteRequest")(section="Facts", content="Peas.")
        first = await api.call(
            "patch_notes_by_path", NOTE, body=patch, if_match=f'"{read.parsed.hash_}"'
        )
        assert (first.status_code, first.parsed.changed) == (200, True)
        patch = api.model("PatchNoteRequest")(section="Facts", content="Lettuce.")
        second = await api.call(
            "patch_notes_by_path", NOTE, body=patch, if_match=f'"{read.parsed.hash_}"'
        )
        assert (second.status_code, type(second.parsed).__name__) == (409, "Error")
        assert (second.parsed.conflict.base, second.parsed.conflict.theirs) == (
            "# Garden\n\n## Facts\nBeans.\n",
            (vault / NOTE).read_text(),
        )
        again = await api.call(
            "patch_notes_by_path", NOTE, body=patch, if_match=f'"{second.parsed.conflict.hash_}"'
        )
        assert (again.status_code, (vault / NOTE).read_text()) == (
            200,
            "# Garden\n\n## Facts\nLettuce.\n",
        )

        gone = await api.call(
            "put_notes_by_path",
            "none.md",
            body=api.model("WriteNoteRequest")(content="x"),
            if_match=f'"{read.parsed.hash_}"',
        )
        assert (gone.status_code, gone.parsed.conflict.theirs, gone.parsed.conflict.hash_) == (
            409,
            "",
            None,
        )

        data = bytes(range(256)) * 64
        file = api.part("types").File(payload=io.BytesIO(data).getvalue())
        more = {
            "body": file,
            "if_none_match": "*",
            "x_content_sha256": hashlib.sha256(data).hexdigest(),
        }
        assert [
            (await api.call("put_files_by_path", "Photos/a b.png", **more)).status_code
            for _ in range(2)
        ] == [201, 409]
        assert (vault / "Photos/a b.png").read_bytes() == data
        got = await api.call("get_files_by_path", "Photos/a b.png", range_="bytes=0-3")
        assert (got.status_code, got.parsed.payload.read()) == (206, data[:4])

        heard = await asyncio.wait_for(events, 30)
        assert [(one.event, one.module) for one in heard] == [("file.modified", "core")] * 2 + [
            ("file.created", "core")
        ]
        assert all(isinstance(one.timestamp, datetime) for one in heard)
        assert heard[-1].data["path"] == "Photos/a b.png"


async def follow(api: Generated) -> asyncio.Task[list[Any]]:
    """The first three events of files, as the client's own model; it is connected when this
    returns.
    """
    connected = asyncio.Event()

    async def listen() -> list[Any]:
        heard: list[Any] = []
        request = api.part("api.vault.get_events")._get_kwargs()
        async with api.client.get_async_httpx_client().stream(**request, timeout=20) as answer:
            async for line in answer.aiter_lines():
                connected.set()
                if line.startswith("data: "):
                    event = api.model("EventMessage").from_dict(
                        json.loads(line.removeprefix("data: "))
                    )
                    heard += [event] if event.event.startswith("file.") else []
                if len(heard) == 3:
                    break
        return heard

    task = asyncio.get_running_loop().create_task(listen())
    await asyncio.wait_for(connected.wait(), 30)
    return task
