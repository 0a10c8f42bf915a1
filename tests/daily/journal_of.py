"""A journal that runs alone, and what tests do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import ModuleHarness, running_module

NOON = "2026-02-24T12:00:00-05:00"
DAY = "Daily/journals/2026-02-24.md"


@asynccontextmanager
async def daily(vault: Path, **options: Any) -> AsyncIterator[ModuleHarness]:
    async with running_module(
        bundled_folder("modules") / "daily", vault=vault, **options
    ) as module:
        yield module


async def write(module: ModuleHarness, content: str, at: str = NOON) -> str:
    answer = await module.request("POST", "/entries", body={"content": content, "created_at": at})
    assert isinstance(answer, dict)
    return str(answer["id"])


def created(module: ModuleHarness) -> list[object]:
    return [data["content"] for name, data in module.published if name == "daily.entry.created"]
