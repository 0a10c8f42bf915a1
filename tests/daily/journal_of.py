"""A journal that runs alone, and what tests do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from parachuted.errors import ModuleFailedError
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


def hears(folder: Path, words: str | None) -> dict[str, object]:
    """Settings with an engine that hears these words; None: it fails."""
    said = folder / "said"
    said.unlink(missing_ok=True)
    if words is not None:
        said.write_text(words)
    return {"transcription": {"command": ["sh", "-c", f"cat {said}", "sh"]}}


KIM, LVB = "para:brain:aaaaaaaaaaaa", "para:brain:bbbbbbbbbbbb"
NAMES = {"Kim": (KIM, 0.95), "course": (LVB, 0.6), "Lee": ("para:brain:cccccccccccc", 0.3)}


class FakeBrain:
    """Finds three names, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.is_ill = False

    async def resolve(self, text: str) -> Mapping[str, object]:
        return {"match": {"para_id": text}}

    async def detect_mentions(
        self, path: str, text: str, entry_id: str | None = None
    ) -> list[Mapping[str, object]]:
        if self.is_ill:
            raise ModuleFailedError("brain is ill")
        self.asked.append((path, entry_id))
        return [
            {"para_id": para_id, "name": name, "text": name, "confidence": confidence}
            for name, (para_id, confidence) in NAMES.items()
            if name in text
        ]

    async def suggest(self, _text: str) -> list[object]:
        return []
